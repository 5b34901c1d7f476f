"""A dense decoder's own forward pass, with a cache of one slot a place.

In the deterministic mode a row's bits must not depend on its neighbors (the probe repeats the measurement at start).
So: rows of every product come in multiples of 8; attention is the explicit product with −inf masks; keys are padded to
16, the queries of a prefill to 8; and the value product is summed over blocks of 256 keys from position 0, in order,
since a longer sum is cut differently for different lengths. A prefill's last block is whole, a decode step's ends with
its keys.

What lies behind a row's last token in its cache is never read with a weight other than 0, but it is read: every number
there has to be finite. The last position of a place takes the writes of rows that only pad.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from rollwright.engines.embedded.dense_weights import DenseLayer, DenseWeights, lay_out
from rollwright.engines.embedded.runner import Install, Logits, PrefillRow
from rollwright.engines.embedded.shapes import DenseShape

__all__ = ["MAX_PRODUCT_ROWS", "ROW_MULTIPLE", "VALUE_BLOCK", "DenseRunner"]

ROW_MULTIPLE = 8
VALUE_BLOCK = 256
MAX_PRODUCT_ROWS = 2048
_KEY_MULTIPLE = 16
_PIECE_TOKENS = 512
_ALWAYS_TOGETHER = 64
"""Rows of at most so many new tokens are computed together, however short the others are."""
_LOGIT_NUMBERS = 16_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Near:
    """What several new tokens a row attend to."""

    places: Tensor
    """(rows,)"""
    spread: Tensor
    """(tokens without padding,) where each stands among rows * width."""
    width: int
    """Queries a row, padded to 8."""
    num_keys: int
    last: Tensor
    """(rows, width) the last position that each query sees."""


class DenseRunner:
    """Llama, Qwen2 and Qwen3 shapes on a CPU or one GPU."""

    def __init__(
        self,
        *,
        shape: DenseShape,
        weights: DenseWeights,
        rotary: Tensor,
        num_places: int,
        key_multiple: int = _KEY_MULTIPLE,
    ) -> None:
        """Reserve the caches.

        Args:
            shape: of the model.
            weights: laid out, in the type and on the device to compute with.
            rotary: (2, n, head size) cosines and sines of positions 0 to n − 1; n is the longest context.
            num_places: contexts held at once; rounded up to a multiple of 8.
            key_multiple: what decoding pads the number of keys to.
        """
        self._shape = shape
        self._weights = weights
        self._spare: DenseWeights | None = None
        """Served before; the next weights take its memory."""
        self._key_multiple = key_multiple
        self._max_context = rotary.shape[1]
        self._num_places = _padded(num_places, ROW_MULTIPLE)
        self._capacity = _padded(self._max_context + 1, VALUE_BLOCK)
        self._dtype, self._device = weights.embedding.dtype, weights.embedding.device
        room = self._capacity - self._max_context
        cosines, sines = F.pad(rotary.to(self._device, self._dtype), (0, 0, 0, room))
        half = shape.head_size // 2
        self._cosines, self._sines = cosines, torch.cat([-sines[:, :half], sines[:, half:]], dim=-1)
        # One place more than asked for: the scratch of `score`.
        size = (shape.num_layers, 2, self._num_places + 1, shape.num_kv_heads, self._capacity, shape.head_size)
        self._cache = torch.zeros(size, dtype=self._dtype, device=self._device)
        self._keys = torch.arange(self._capacity, device=self._device)
        self._row_starts = self._place_offsets()

    @property
    def vocab(self) -> int:
        """Number of token ids."""
        return self._shape.vocab

    @property
    def num_places(self) -> int:
        """Caches that hold a context each."""
        return self._num_places

    @property
    def max_context_tokens(self) -> int:
        """Tokens a place can hold."""
        return self._max_context

    @property
    def can_copy_prefix(self) -> bool:
        """Always: a cache is plain keys and values."""
        return True

    @torch.inference_mode()
    def prefill(self, rows: Sequence[PrefillRow]) -> Logits:
        """Write tokens; (n, V) logits behind the last token of each row."""
        logits = np.empty((len(rows), self.vocab), dtype=np.float32)
        for members in _batches(rows):
            hidden = self._write([rows[i] for i in members])
            logits[members] = self._logits(hidden)[: len(members)]
        return logits

    @torch.inference_mode()
    def decode(self, token_ids: NDArray[np.int64], positions: NDArray[np.int64]) -> Logits:
        """Write one token at each of the first n places; position −1 leaves a place alone. (n, V) logits."""
        size = _padded(len(token_ids), ROW_MULTIPLE)
        ids = np.zeros(size, dtype=np.int64)
        seen = np.full(size, -1, dtype=np.int64)
        ids[: len(token_ids)], seen[: len(token_ids)] = token_ids, positions
        num_keys = min(_padded(int(seen.max()) + 1, self._key_multiple), self._capacity)
        where = torch.from_numpy(np.where(seen < 0, self._capacity - 1, seen)).to(self._device)
        last = torch.from_numpy(np.maximum(seen, 0)).to(self._device)
        targets = (self._row_starts[:, :size] + where[None, :, None]).reshape(-1)
        mask = torch.where(self._keys[:num_keys] <= last[:, None], 0.0, -torch.inf)[:, None]
        cosines, sines = self._cosines[where][:, None], self._sines[where][:, None]
        hidden = F.embedding(torch.from_numpy(ids).to(self._device), self._weights.embedding)
        for layer, cache in zip(self._weights.layers, self._cache, strict=True):
            rotated, fused = self._project(hidden, layer, cosines, sines)
            self._store(cache, targets, rotated, fused)
            hidden = self._finish(hidden, self._attend_one(rotated, cache[:, :size], mask, num_keys), layer)
        return self._logits(hidden)[: len(token_ids)]

    @torch.inference_mode()
    def score(self, token_ids: NDArray[np.int32], score_from: int) -> Iterator[Logits]:
        """Logits that tokens `score_from`… were drawn from, in pieces, computed in a place of their own."""
        wanted = max(ROW_MULTIPLE, _LOGIT_NUMBERS // self.vocab // ROW_MULTIPLE * ROW_MULTIPLE)
        pieces: list[Logits] = []
        for start in range(0, len(token_ids) - 1, _PIECE_TOKENS):
            piece = token_ids[start : min(start + _PIECE_TOKENS, len(token_ids) - 1)]
            row = PrefillRow(place=self._num_places, start=start, token_ids=piece)
            hidden = self._forward([row])
            first = max(0, score_from - 1 - start)
            for low in range(first, len(piece), wanted):
                high = min(low + wanted, len(piece))
                pieces.append(self._logits(_pad_rows(hidden[low:high]))[: high - low])
        return iter(pieces)

    @torch.inference_mode()
    def copy_prefix(self, source: int, target: int, num_tokens: int) -> None:
        """Copy the first positions of one place to another."""
        if source != target:
            self._cache[:, :, target, :, :num_tokens] = self._cache[:, :, source, :, :num_tokens]

    @torch.inference_mode()
    def exchange(self, first: int, second: int, num_tokens: int) -> None:
        """Exchange the first positions of two places."""
        near = self._cache[:, :, :, :, :num_tokens]
        kept = near[:, :, first].clone()
        near[:, :, first] = near[:, :, second]
        near[:, :, second] = kept

    @torch.inference_mode()
    def scrub(self, place: int) -> None:
        """Forget all numbers of a place."""
        self._cache[:, :, place] = 0

    @torch.inference_mode()
    def stage(self, tensors: Mapping[str, Tensor]) -> Install:
        """Lay out new weights beside those that serve, in the memory of those that served before."""
        spare, self._spare = self._spare, None
        weights = lay_out(tensors, self._shape, dtype=self._dtype, device=self._device, into=spare)

        def install() -> None:
            self._weights, self._spare = weights, self._weights

        return install

    def _write(self, rows: Sequence[PrefillRow]) -> Tensor:
        """Run rows of similar length, in pieces; (rows padded to 8, hidden) behind their last tokens."""
        longest = max(len(row.token_ids) for row in rows)
        ends = torch.zeros(_padded(len(rows), ROW_MULTIPLE), self._shape.hidden, dtype=self._dtype, device=self._device)
        for low in range(0, longest, _PIECE_TOKENS):
            members = [i for i, row in enumerate(rows) if len(row.token_ids) > low]
            pieces = [_piece(rows[i], low) for i in members]
            hidden = self._forward(pieces)
            last = np.cumsum([len(piece.token_ids) for piece in pieces]) - 1
            ends[torch.tensor(members, device=self._device)] = hidden[torch.from_numpy(last).to(self._device)]
        return ends

    def _forward(self, rows: Sequence[PrefillRow]) -> Tensor:
        """All layers over new tokens, packed row behind row; (tokens padded to 8, hidden)."""
        lengths = np.array([len(row.token_ids) for row in rows])
        starts = np.array([row.start for row in rows])
        width = _padded(int(lengths.max()), ROW_MULTIPLE)
        num_tokens = _padded(int(lengths.sum()), ROW_MULTIPLE)
        row_of = np.repeat(np.arange(len(rows)), lengths)
        step_of = np.arange(len(row_of)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        ids = np.zeros(num_tokens, dtype=np.int64)
        ids[: len(row_of)] = np.concatenate([row.token_ids for row in rows])
        where = np.full(num_tokens, self._capacity - 1, dtype=np.int64)
        where[: len(row_of)] = starts[row_of] + step_of
        place_of = np.full(num_tokens, self._num_places, dtype=np.int64)
        place_of[: len(row_of)] = np.array([row.place for row in rows])[row_of]
        spread = self._tensor(row_of * width + step_of)
        positions, places = self._tensor(where), self._tensor(place_of)
        near = _Near(
            places=self._tensor(np.array([row.place for row in rows])),
            spread=spread,
            width=width,
            num_keys=min(_padded(int((starts + lengths).max()), _KEY_MULTIPLE), self._capacity),
            last=self._tensor(starts[:, None] + np.arange(width)),
        )
        mask = torch.where(self._keys[: near.num_keys] <= near.last[..., None], 0.0, -torch.inf)[:, None]
        targets = (self._row_starts[:, places] + positions[None, :, None]).reshape(-1)
        cosines, sines = self._cosines[positions][:, None], self._sines[positions][:, None]
        hidden = F.embedding(self._tensor(ids), self._weights.embedding)
        for layer, cache in zip(self._weights.layers, self._cache, strict=True):
            rotated, fused = self._project(hidden, layer, cosines, sines)
            self._store(cache, targets, rotated, fused)
            hidden = self._finish(hidden, self._attend_many(rotated, cache, mask, near), layer)
        return hidden

    def _project(self, hidden: Tensor, layer: DenseLayer, cosines: Tensor, sines: Tensor) -> tuple[Tensor, Tensor]:
        """Rotated queries and keys (rows, heads + kv heads, head size), and the fused projection with the values."""
        shape = self._shape
        fused = F.linear(_normed(hidden, shape.norm_eps), layer.qkv, layer.qkv_bias)
        fused = fused.view(len(hidden), -1, shape.head_size)
        plain = fused[:, : shape.num_rotated]
        if layer.qk_norm is not None:
            plain = _normed(plain, shape.norm_eps).mul_(layer.qk_norm)
        half = shape.head_size // 2
        turned = torch.cat([plain[..., half:], plain[..., :half]], dim=-1).mul_(sines)
        return (plain * cosines).add_(turned), fused

    def _store(self, cache: Tensor, targets: Tensor, rotated: Tensor, fused: Tensor) -> None:
        """Write keys and values of one layer at their flat targets, keys first."""
        shape = self._shape
        lines = cache.view(-1, shape.head_size)
        middle = len(targets) // 2
        lines.index_copy_(0, targets[:middle], rotated[:, shape.num_heads :].reshape(-1, shape.head_size))
        lines.index_copy_(0, targets[middle:], fused[:, shape.num_rotated :].reshape(-1, shape.head_size))

    def _attend_one(self, rotated: Tensor, cache: Tensor, mask: Tensor, num_keys: int) -> Tensor:
        """One query a row over the caches of the first places; (rows, heads * head size)."""
        shape, rows = self._shape, len(rotated)
        queries = rotated[:, : shape.num_heads].reshape(rows * shape.num_kv_heads, -1, shape.head_size)
        keys, values = cache.view(2, rows * shape.num_kv_heads, self._capacity, shape.head_size)[:, :, :num_keys]
        scores = torch.bmm(queries, keys.transpose(1, 2)).view(rows, shape.num_heads, num_keys).add_(mask)
        shares = torch.softmax(scores, dim=-1).view(rows * shape.num_kv_heads, -1, num_keys)
        return _sum_values(shares, values).view(rows, -1)

    def _attend_many(self, rotated: Tensor, cache: Tensor, mask: Tensor, near: _Near) -> Tensor:
        """Several queries a row, packed; (tokens, heads * head size)."""
        shape, rows = self._shape, len(near.places)
        heads, group, size = shape.num_kv_heads, shape.num_queries_per_kv, shape.head_size
        spread = rotated.new_zeros(rows * near.width, shape.num_heads, size)
        spread.index_copy_(0, near.spread, rotated[: len(near.spread), : shape.num_heads])
        queries = spread.view(rows, near.width, heads, group, size).permute(0, 2, 3, 1, 4)
        queries = queries.reshape(rows * heads, group * near.width, size)
        keys = cache[0, :, :, : near.num_keys].index_select(0, near.places).view(rows * heads, near.num_keys, size)
        scores = torch.bmm(queries, keys.transpose(1, 2)).view(rows, shape.num_heads, near.width, -1).add_(mask)
        shares = torch.softmax(scores, dim=-1).view(rows * heads, group * near.width, near.num_keys)
        num_values = _padded(near.num_keys, VALUE_BLOCK)
        values = cache[1, :, :, :num_values].index_select(0, near.places).view(rows * heads, num_values, size)
        mixed = _sum_values(F.pad(shares, (0, num_values - near.num_keys)), values)
        mixed = mixed.view(rows, heads, group, near.width, size).permute(0, 3, 1, 2, 4).reshape(rows * near.width, -1)
        packed = mixed.new_zeros(len(rotated), mixed.shape[1])
        packed[: len(near.spread)] = mixed.index_select(0, near.spread)
        return packed

    def _finish(self, hidden: Tensor, attended: Tensor, layer: DenseLayer) -> Tensor:
        """The output projection and the gated layer, each added to the stream."""
        hidden = F.linear(attended, layer.out, layer.out_bias).add_(hidden)
        gates = F.linear(_normed(hidden, self._shape.norm_eps), layer.gate_up, layer.gate_up_bias)
        gate, up = gates.split(self._shape.intermediate, dim=-1)
        return F.linear(F.silu(gate).mul_(up), layer.down, layer.down_bias).add_(hidden)

    def _logits(self, hidden: Tensor) -> Logits:
        """(rows, V) float32 on the host; rows come in a multiple of 8."""
        normed = _normed(hidden, self._shape.norm_eps).mul_(self._weights.final_norm)
        return F.linear(normed, self._weights.head).float().cpu().numpy()

    def _tensor(self, numbers: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(numbers).to(self._device)

    def _place_offsets(self) -> Tensor:
        """(2, places, kv heads) flat line of position 0 in one layer's cache, keys then values."""
        shape = self._cache.shape[1:4]
        lines = torch.arange(int(np.prod(shape)), device=self._device) * self._capacity
        return lines.view(shape)


def _normed(hidden: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm over the last axis, without its weight; a new tensor."""
    wide = hidden.float()
    return (wide * (wide.square().mean(dim=-1, keepdim=True).add_(eps)).rsqrt_()).to(hidden.dtype)


def _sum_values(shares: Tensor, values: Tensor) -> Tensor:
    """Attention-weighted values, in blocks of 256 keys from position 0, in order."""
    num_keys = shares.shape[-1]
    total = torch.bmm(shares[..., :VALUE_BLOCK], values[:, :VALUE_BLOCK])
    for low in range(VALUE_BLOCK, num_keys, VALUE_BLOCK):
        high = min(low + VALUE_BLOCK, num_keys)
        total += torch.bmm(shares[..., low:high], values[:, low:high])
    return total


def _batches(rows: Sequence[PrefillRow]) -> Iterator[list[int]]:
    """Cut rows, the longest first, into batches whose attention wastes little and whose tokens fit a product."""
    batch: list[int] = []
    longest = total = 0
    for i in sorted(range(len(rows)), key=lambda i: len(rows[i].token_ids), reverse=True):
        length = min(len(rows[i].token_ids), _PIECE_TOKENS)
        is_short = longest > _ALWAYS_TOGETHER and length * 2 < longest
        if batch and (is_short or total + length > MAX_PRODUCT_ROWS):
            yield batch
            batch, longest, total = [], 0, 0
        batch.append(i)
        longest, total = max(longest, length), total + length
    if batch:
        yield batch


def _piece(row: PrefillRow, low: int) -> PrefillRow:
    """At most 512 tokens of a row, from token `low` on."""
    piece = row.token_ids[low : low + _PIECE_TOKENS]
    return PrefillRow(place=row.place, start=row.start + low, token_ids=piece)


def _pad_rows(hidden: Tensor) -> Tensor:
    return F.pad(hidden, (0, 0, 0, -len(hidden) % ROW_MULTIPLE))


def _padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
