"""A dense decoder's own forward pass, over a cache in blocks.

In the deterministic mode a row's bits must not depend on its neighbors (the probe repeats the measurement at start).
So: rows of every product, and the queries of a prefill, come in multiples of 8, or of 16 where this machine needs it,
those of a decode step of 4 where that is enough; the softmax is over whole blocks of 64 keys, with −inf behind a row's
last; and the value product is summed in an order that its own row alone sets (`attention` says how), since a longer
product is cut differently for different lengths.

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

from rollwright.engines.embedded.attention import Spread, attend_many, block_mask, lines_of, spread_of
from rollwright.engines.embedded.blocks import BLOCK, BlockTables, Change
from rollwright.engines.embedded.dense_weights import DenseWeights, lay_out, spared
from rollwright.engines.embedded.layer_cache import Lines, Slots, layer_cache, slots_of
from rollwright.engines.embedded.one_call import (
    Ends,
    Matrices,
    Step,
    gated,
    normed,
    plain_step,
    store,
    store_and_attend,
    turned,
    turns_at,
)
from rollwright.engines.embedded.runner import Install, Logits, PrefillRow
from rollwright.engines.embedded.shapes import ROW_MULTIPLE, DenseShape

__all__ = ["MAX_PRODUCT_ROWS", "ROW_MULTIPLE", "DenseRunner"]

MAX_PRODUCT_ROWS = 2048
_PIECE_TOKENS = 512
_ALWAYS_TOGETHER = 64
"""Rows of at most so many new tokens are computed together, however short the others are."""
_LOGIT_NUMBERS = 16_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Standing:
    """What a decode step reads and where it writes; the next step of the same rows moves it on by one position."""

    places: NDArray[np.intp]
    positions: NDArray[np.int64]
    """Of these rows: the first of those of the step."""
    ids: NDArray[np.int64]
    """Likewise."""
    num_changes: int
    """Of the tables."""
    step: Step

    def moves_on(self, places: NDArray[np.intp], positions: NDArray[np.int64], num_changes: int) -> bool:
        """Go to these positions if they are the next ones and no row enters a block; False: lay out anew."""
        if (
            num_changes != self.num_changes
            or not np.array_equal(places, self.places)
            or not np.array_equal(positions, self.positions + 1)
            or not (positions % BLOCK).all()
        ):
            return False
        self.positions[:] = positions
        self.step.slots.offsets.numpy()[: len(places)] += 1
        self.step.mask.numpy()[np.arange(len(places)), 0, positions] = 0.0
        return True


class DenseRunner:
    """Llama, Qwen2 and Qwen3 shapes on a CPU or one GPU."""

    def __init__(
        self,
        *,
        shape: DenseShape,
        weights: DenseWeights,
        rotary: Tensor,
        num_places: int,
        row_multiple: int,
    ) -> None:
        """Reserve the caches.

        Args:
            shape: of the model.
            weights: laid out, in the type and on the device to compute with.
            rotary: (2, n, head size) cosines and sines of positions 0 to n − 1; n is the longest context.
            num_places: contexts held at once; rounded up to a multiple of 8.
            row_multiple: of the rows of a decode step; with 1 a row's bits depend on how many others there are. Other
                products have rows in multiples of 8, or of this where it is more.
        """
        self._shape = shape
        self._spare: DenseWeights | None = None
        """Served before; the next weights take its memory."""
        self._row_multiple = row_multiple
        self._product_multiple = max(ROW_MULTIPLE, row_multiple)
        self._max_context = rotary.shape[1]
        self._num_places = _padded(num_places, ROW_MULTIPLE)
        self._dtype, self._device = weights.embedding.dtype, weights.embedding.device
        is_on_cpu = self._device.type == "cpu"
        cosines, sines = rotary.to(self._device, torch.float32)[:, :, : shape.head_size // 2]
        self._turns = torch.complex(cosines, sines)
        self._eps = torch.tensor(shape.hidden * shape.norm_eps, device=self._device)
        self._head_eps = torch.tensor(shape.head_size * shape.norm_eps, device=self._device)
        self._weights = weights
        self._plain = self._one_call(weights)
        # One place more than asked for: the scratch of `score`.
        self._tables = BlockTables(self._num_places + 1, self._max_context)
        # On a CPU sums of bfloat16 lines would be rounded to bfloat16: the cache and the attention are wide there.
        self._cache_dtype = torch.float32 if is_on_cpu else self._dtype
        size = (shape.num_layers, 2, self._tables.num_blocks, shape.num_kv_heads, shape.head_size * BLOCK)
        self._cache = torch.zeros(size, dtype=self._cache_dtype, device=self._device)
        self._layer_caches = [layer_cache(cache, shape) for cache in self._cache]
        self._standing: _Standing | None = None
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
        count, size = len(places), _padded(len(places), self._row_multiple)
        if self._sees_lines:
            standing = self._stand(places, positions, size)
            standing.ids[:] = token_ids
            return self._decode(standing.step)[:count]
        ids, where = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        ids[:count], where[:count] = token_ids, positions
        self._enter_blocks(places, positions)
        near = self._spread(places, np.arange(count), 1)
        mask = block_mask(self._tensor(positions)[:, None], near.num_blocks)[:, None]
        slots = self._slots(places, positions, size)
        return self._logits(self._layers(self._tensor(ids), self._tensor(where), slots, near, mask))[:count]

    @torch.inference_mode()
    def score(self, token_ids: NDArray[np.int32], score_from: int) -> Iterator[Logits]:
        """Logits that tokens `score_from`… were drawn from, in pieces, computed in a place of their own."""
        multiple = self._product_multiple
        wanted = max(multiple, _LOGIT_NUMBERS // self.vocab // multiple * multiple)
        pieces: list[Logits] = []
        for start in range(0, len(token_ids) - 1, _PIECE_TOKENS):
            piece = token_ids[start : min(start + _PIECE_TOKENS, len(token_ids) - 1)]
            row = PrefillRow(place=self._num_places, start=start, token_ids=piece)
            hidden = self._forward([row])
            first = max(0, score_from - 1 - start)
            for low in range(first, len(piece), wanted):
                high = min(low + wanted, len(piece))
                pieces.append(self._logits(_pad_rows(hidden[low:high], multiple))[: high - low])
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
            self._spare = spared(self._weights)
            self._weights = weights
            self._plain = self._one_call(weights)

        return install

    def _write(self, rows: Sequence[PrefillRow]) -> Tensor:
        """Run rows of similar length, in pieces; (padded rows, hidden) behind their last tokens."""
        longest = max(len(row.token_ids) for row in rows)
        size = _padded(len(rows), self._product_multiple), self._shape.hidden
        ends = torch.zeros(size, dtype=self._dtype, device=self._device)
        for low in range(0, longest, _PIECE_TOKENS):
            members = [i for i, row in enumerate(rows) if len(row.token_ids) > low]
            pieces = [_piece(rows[i], low) for i in members]
            hidden = self._forward(pieces)
            last = np.cumsum([len(piece.token_ids) for piece in pieces]) - 1
            ends[torch.tensor(members, device=self._device)] = hidden[torch.from_numpy(last).to(self._device)]
        return ends

    def _forward(self, rows: Sequence[PrefillRow]) -> Tensor:
        """All layers over new tokens, packed row behind row; (padded tokens, hidden)."""
        lengths = np.array([len(row.token_ids) for row in rows])
        starts = np.array([row.start for row in rows])
        places = np.array([row.place for row in rows])
        for row in rows:
            self._change(self._tables.reserve(row.place, row.start, row.start + len(row.token_ids)))
        width = _padded(int(lengths.max()), self._product_multiple)
        num_tokens = _padded(int(lengths.sum()), self._product_multiple)
        row_of = np.repeat(np.arange(len(rows)), lengths)
        step_of = np.arange(len(row_of)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        ids, where = np.zeros(num_tokens, dtype=np.int64), np.zeros(num_tokens, dtype=np.int64)
        ids[: len(row_of)] = np.concatenate([row.token_ids for row in rows])
        positions = starts[row_of] + step_of
        where[: len(row_of)] = positions
        near = self._spread(places, row_of * width + step_of, width)
        mask = block_mask(self._tensor(starts[:, None] + np.arange(width)), near.num_blocks)[:, None]
        slots = self._slots(places[row_of], positions, num_tokens)
        return self._layers(self._tensor(ids), self._tensor(where), slots, near, mask)

    def _decode(self, step: Step) -> Logits:
        """(padded rows, V) behind one token a row."""
        if self._plain is None:
            return self._logits(self._layers(step.ids, step.positions, step.slots, step.lines, step.mask))
        return plain_step(step, *self._plain, self._layer_caches).float().numpy()

    def _one_call(self, weights: DenseWeights) -> tuple[Ends, list[Matrices]] | None:
        """Laid out for whole steps as one call; None: a matrix is packed."""
        if weights.is_packed:
            return None
        ends = Ends(
            embedding=weights.embedding,
            turns=self._turns,
            eps=self._eps,
            head_eps=self._head_eps,
            final_norm=weights.final_norm,
            head=weights.head.weight,
        )
        return ends, [layer.matrices for layer in weights.layers]

    def _layers(self, ids: Tensor, positions: Tensor, slots: Slots, near: Lines | Spread, mask: Tensor) -> Tensor:
        """All layers over padded rows of tokens at their positions."""
        shape = self._shape
        turns = turns_at(self._turns, positions, shape.num_rotated + shape.num_kv_heads, shape.num_rotated)
        hidden = F.embedding(ids, self._weights.embedding)
        for layer, cache in zip(self._weights.layers, self._layer_caches, strict=True):
            fused = layer.qkv(normed(hidden, self._eps)).view(len(hidden), -1, shape.head_size)
            rows = turned(fused, layer.qk_norm, self._head_eps, turns, shape.num_rotated).to(self._cache_dtype)
            if isinstance(near, Lines):
                attended = store_and_attend(rows, cache, slots, near, mask)
            else:
                store(rows, cache, slots)
                attended = attend_many(rows[:, : shape.num_heads], cache, mask, near, shape)
            hidden = layer.out.added_to(hidden, attended.to(self._dtype))
            hidden = layer.down.added_to(hidden, gated(layer.gate_up(normed(hidden, self._eps))))
        return hidden

    def _enter_blocks(self, places: NDArray[np.intp], positions: NDArray[np.int64]) -> None:
        """Give a new block to each row that is about to write its first token there; nothing is copied then."""
        taken: list[int] = []
        for i in np.flatnonzero(positions // BLOCK >= self._tables.sizes[places]).tolist():
            emptied, copied = self._tables.reserve(int(places[i]), int(positions[i]), int(positions[i]) + 1)
            assert not copied
            taken += emptied
        self._change((taken, []))

    def _stand(self, places: NDArray[np.intp], positions: NDArray[np.int64], size: int) -> _Standing:
        """What these rows read and where they write; laid out anew when a row enters a block, or others draw."""
        standing = self._standing
        if standing is None or not standing.moves_on(places, positions, self._tables.num_changes):
            self._enter_blocks(places, positions)
            sizes = positions // BLOCK + 1
            count, where, ids = len(places), np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
            where[:count] = positions
            step = Step(
                ids=torch.from_numpy(ids),
                positions=torch.from_numpy(where),
                slots=self._slots(places, positions, size),
                lines=lines_of(self._tables.blocks[places], sizes, self._shape, size),
                mask=block_mask(torch.from_numpy(positions)[:, None], int(sizes.max())),
            )
            standing = self._standing = _Standing(
                places=places.copy(),
                positions=where[:count],
                ids=ids[:count],
                num_changes=self._tables.num_changes,
                step=step,
            )
        return standing

    def _spread(self, places: NDArray[np.intp], spread: NDArray[np.intp], width: int) -> Spread:
        """What these rows read of all that stands in their places."""
        widest = int(self._tables.sizes[places].max())
        return spread_of(self._tables.blocks[places, :widest], spread, width, self._shape, self._device)

    def _slots(self, places: NDArray[np.intp], positions: NDArray[np.int64], size: int) -> Slots:
        """Where tokens go, each at a position of a place."""
        return slots_of(self._tables.blocks[places, positions // BLOCK], positions, size, self._device)

    def _change(self, change: Change) -> None:
        """Empty the blocks that a place has taken, and copy what it has to own."""
        emptied, copied = change
        if emptied:
            self._cache.index_fill_(2, self._tensor(np.array(emptied)), 0)
        for source, target in copied:
            self._cache[:, :, target] = self._cache[:, :, source]

    def _logits(self, hidden: Tensor) -> Logits:
        """(rows, V) float32 on the host; rows come in the multiple that the products need."""
        last = normed(hidden, self._eps).mul_(self._weights.final_norm)
        return self._weights.head(last).float().cpu().numpy()

    def _tensor(self, numbers: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(numbers).to(self._device)


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


def _pad_rows(hidden: Tensor, multiple: int) -> Tensor:
    missing = -len(hidden) % multiple
    return F.pad(hidden, (0, 0, 0, missing)) if missing else hidden


def _padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
