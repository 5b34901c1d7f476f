"""A dense decoder's own forward pass, over a cache in blocks.

In the deterministic mode a row's bits must not depend on its neighbors (the probe repeats the measurement at start).
So: rows of every product come in multiples of 8, and so do the queries of a prefill; the softmax is over whole blocks
of 64 keys, with −inf behind a row's last; and the value product is summed in an order that its own row alone sets
(`attention` says how), since a longer product is cut differently for different lengths.

What lies behind a row's last token in its blocks is never read with a weight other than 0, but it is read: every number
there has to be finite. So a block is emptied when a place takes it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from rollwright.engines.embedded.attention import (
    Lines,
    Spread,
    attend_many,
    attend_one,
    block_mask,
    lines_of,
    spread_of,
)
from rollwright.engines.embedded.blocks import BLOCK, WASTE_BLOCK, BlockTables, Change
from rollwright.engines.embedded.dense_weights import DenseLayer, DenseWeights, lay_out
from rollwright.engines.embedded.runner import Install, Logits, PrefillRow
from rollwright.engines.embedded.shapes import DenseShape

__all__ = ["MAX_PRODUCT_ROWS", "ROW_MULTIPLE", "DenseRunner"]

ROW_MULTIPLE = 8
MAX_PRODUCT_ROWS = 2048
_PIECE_TOKENS = 512
_ALWAYS_TOGETHER = 64
"""Rows of at most so many new tokens are computed together, however short the others are."""
_LOGIT_NUMBERS = 16_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Known:
    """The lines of the last step, good as long as the same rows stand in the same blocks."""

    places: NDArray[np.intp]
    sizes: NDArray[np.int64]
    num_changes: int
    """Of the tables."""
    lines: Lines


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Targets:
    """Where new keys and values go in one layer's cache."""

    keys: Tensor
    """(rows * kv heads * head size,) numbers of the keys, which lie turned."""
    values: Tensor
    """(rows * kv heads,) lines of the values."""


class DenseRunner:
    """Llama, Qwen2 and Qwen3 shapes on a CPU or one GPU."""

    def __init__(
        self,
        *,
        shape: DenseShape,
        weights: DenseWeights,
        rotary: Tensor,
        num_places: int,
    ) -> None:
        """Reserve the caches.

        Args:
            shape: of the model.
            weights: laid out, in the type and on the device to compute with.
            rotary: (2, n, head size) cosines and sines of positions 0 to n − 1; n is the longest context.
            num_places: contexts held at once; rounded up to a multiple of 8.
        """
        self._shape = shape
        self._weights = weights
        self._spare: DenseWeights | None = None
        """Served before; the next weights take its memory."""
        self._max_context = rotary.shape[1]
        self._num_places = _padded(num_places, ROW_MULTIPLE)
        self._dtype, self._device = weights.embedding.dtype, weights.embedding.device
        is_on_cpu = self._device.type == "cpu"
        cosines, sines = rotary.to(self._device, self._dtype)
        half = shape.head_size // 2
        self._cosines, self._sines = cosines, torch.cat([-sines[:, :half], sines[:, half:]], dim=-1)
        # One place more than asked for: the scratch of `score`.
        self._tables = BlockTables(self._num_places + 1, self._max_context)
        # On a CPU sums of bfloat16 lines would be rounded to bfloat16: the cache and the attention are wide there.
        self._cache_dtype = torch.float32 if is_on_cpu else self._dtype
        size = (shape.num_layers, 2, self._tables.num_blocks, shape.num_kv_heads, shape.head_size * BLOCK)
        self._cache = torch.zeros(size, dtype=self._cache_dtype, device=self._device)
        self._known: _Known | None = None
        self._sees_lines = is_on_cpu

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
    def decode(self, places: NDArray[np.intp], token_ids: NDArray[np.int64], positions: NDArray[np.int64]) -> Logits:
        """Write one token at each of these places; (n, V) logits behind them."""
        count, size = len(places), _padded(len(places), ROW_MULTIPLE)
        self._enter_blocks(places, positions)
        ids, where = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        ids[:count], where[:count] = token_ids, positions
        near = self._lines(places, positions) if self._sees_lines else self._spread(places, np.arange(count), 1)
        targets = self._targets(places, np.arange(count), positions, size)
        mask = block_mask(self._tensor(positions)[:, None], near.num_blocks)
        hidden = self._layers(ids, where, targets, near, mask)
        return self._logits(hidden)[:count]

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
        """Let one place begin as another: whole blocks are shared, the rest is copied."""
        self._change(self._tables.share(source, target, num_tokens))

    def scrub(self, place: int) -> None:
        """Forget a place; its blocks are emptied when they are taken again."""
        self._tables.forget(place)

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
        places = np.array([row.place for row in rows])
        for row in rows:
            self._change(self._tables.reserve(row.place, row.start, row.start + len(row.token_ids)))
        width = _padded(int(lengths.max()), ROW_MULTIPLE)
        num_tokens = _padded(int(lengths.sum()), ROW_MULTIPLE)
        row_of = np.repeat(np.arange(len(rows)), lengths)
        step_of = np.arange(len(row_of)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        ids, where = np.zeros(num_tokens, dtype=np.int64), np.zeros(num_tokens, dtype=np.int64)
        ids[: len(row_of)] = np.concatenate([row.token_ids for row in rows])
        positions = starts[row_of] + step_of
        where[: len(row_of)] = positions
        near = self._spread(places, row_of * width + step_of, width)
        mask = block_mask(self._tensor(starts[:, None] + np.arange(width)), near.num_blocks)[:, None]
        return self._layers(ids, where, self._targets(places, row_of, positions, num_tokens), near, mask)

    def _layers(
        self, ids: NDArray[np.int64], where: NDArray[np.int64], targets: _Targets, near: Lines | Spread, mask: Tensor
    ) -> Tensor:
        """All layers over (rows padded to 8) tokens at their positions."""
        shape = self._shape
        positions = self._tensor(where)
        cosines, sines = self._cosines[positions][:, None], self._sines[positions][:, None]
        hidden = F.embedding(self._tensor(ids), self._weights.embedding)
        for layer, cache in zip(self._weights.layers, self._cache, strict=True):
            rotated, fused = self._project(hidden, layer, cosines, sines)
            self._store(cache, targets, rotated, fused)
            queries = rotated[:, : shape.num_heads].to(self._cache_dtype)
            if isinstance(near, Lines):
                attended = _pad_rows(attend_one(queries[: len(mask)], cache[0], cache[1], mask, near))
            else:
                attended = attend_many(queries, cache, mask, near, shape)
            hidden = self._finish(hidden, attended.to(self._dtype), layer)
        return hidden

    def _enter_blocks(self, places: NDArray[np.intp], positions: NDArray[np.int64]) -> None:
        """Give a new block to each row that is about to write its first token there; nothing is copied then."""
        taken: list[int] = []
        for i in np.flatnonzero(positions // BLOCK >= self._tables.sizes[places]).tolist():
            emptied, copied = self._tables.reserve(int(places[i]), int(positions[i]), int(positions[i]) + 1)
            assert not copied
            taken += emptied
        self._change((taken, []))

    def _lines(self, places: NDArray[np.intp], positions: NDArray[np.int64]) -> Lines:
        """What these rows read; laid out anew when a row has entered a block, or others draw."""
        known, sizes, changes = self._known, positions // BLOCK + 1, self._tables.num_changes
        if (
            known is None
            or known.num_changes != changes
            or not np.array_equal(known.places, places)
            or not np.array_equal(known.sizes, sizes)
        ):
            lines = lines_of(self._tables.blocks[places], sizes, self._shape)
            known = self._known = _Known(places=places, sizes=sizes, num_changes=changes, lines=lines)
        return known.lines

    def _spread(self, places: NDArray[np.intp], spread: NDArray[np.intp], width: int) -> Spread:
        """What these rows read of all that stands in their places."""
        widest = int(self._tables.sizes[places].max())
        return spread_of(self._tables.blocks[places, :widest], spread, width, self._shape, self._device)

    def _targets(
        self, places: NDArray[np.intp], row_of: NDArray[np.intp], positions: NDArray[np.int64], size: int
    ) -> _Targets:
        """Where the tokens of rows go, at their positions; what only pads goes to waste."""
        shape = self._shape
        blocks = np.full(size, WASTE_BLOCK, dtype=np.int64)
        offsets = np.zeros(size, dtype=np.int64)
        blocks[: len(row_of)] = self._tables.blocks[places[row_of], positions // BLOCK]
        offsets[: len(row_of)] = positions % BLOCK
        pages = blocks[:, None] * shape.num_kv_heads + np.arange(shape.num_kv_heads)
        numbers = pages[..., None] * shape.head_size + np.arange(shape.head_size)
        numbers = numbers * BLOCK + offsets[:, None, None]
        lines = pages * BLOCK + offsets[:, None]
        return _Targets(keys=self._tensor(numbers.reshape(-1)), values=self._tensor(lines.reshape(-1)))

    def _change(self, change: Change) -> None:
        """Empty the blocks that a place has taken, and copy what it has to own."""
        emptied, copied = change
        if emptied:
            self._cache.index_fill_(2, self._tensor(np.array(emptied)), 0)
        for source, target in copied:
            self._cache[:, :, target] = self._cache[:, :, source]

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

    def _store(self, cache: Tensor, targets: _Targets, rotated: Tensor, fused: Tensor) -> None:
        """Write keys and values of one layer."""
        shape = self._shape
        keys = rotated[:, shape.num_heads :].reshape(-1)
        cache[0].view(-1).scatter_(0, targets.keys, keys.to(self._cache_dtype))
        values = fused[:, shape.num_rotated :].reshape(-1, shape.head_size)
        cache[1].view(-1, shape.head_size).index_copy_(0, targets.values, values.to(self._cache_dtype))

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


def _normed(hidden: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm over the last axis, without its weight; a new tensor."""
    wide = hidden.float()
    squares = (wide * wide).sum(dim=-1, keepdim=True)
    return (wide * squares.div_(wide.shape[-1]).add_(eps).rsqrt_()).to(hidden.dtype)


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
    missing = -len(hidden) % ROW_MULTIPLE
    return F.pad(hidden, (0, 0, 0, missing)) if missing else hidden


def _padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
