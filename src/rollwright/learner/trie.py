"""Rows of tokens as a trie: which tokens are distinct, and the tiles that cover who attends to whom.

    rows      A B C D          distinct, depth first     A B C D | E F | G          ends   7 7 4 4 | 6 6 | 7
              A B E F    ──►   token j is seen by i  ⇔  j ≤ i < ends[j]
              A B G            blocks: along the diagonal; trunks: A B, seen by all that comes behind its block

Depth first, whatever begins alike stands together: what a token may see behind the block it stands in is a few ranges
of keys, each seen by one range of queries. So attention needs views, never copies of a prompt for each of its rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

__all__ = ["PackedRows", "Tile", "pack_rows", "tree_mask"]

BLOCK_TOKENS = 64
"""Short rows share a block of at most so many tokens: fewer calls, little masked work."""
CALL_PAIRS = 2048
"""Masked pairs of query and key that cost about as much as another call."""
FLEX_BLOCK = 128
"""Queries, and keys, of one block of FlexAttention's mask."""
MASK_NUMBERS = 1 << 16
"""The largest mask of a trunk."""
SHORT_KEYS = 32
"""A trunk of at most so many keys costs long calls for what it computes: those behind it take its keys along."""
TAKEN_QUERIES = 64
"""Queries to be spared for every call that is left over where a trunk's keys are taken along."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tile:
    """A range of distinct tokens that sees another one."""

    queries: slice
    keys: slice | Tensor
    """A range; of a trunk that takes others along the numbers of its keys, (m,) int64, each once."""
    mask: Tensor | None
    """(queries, keys) float32, 0 where a query sees a key and -inf elsewhere; every query sees one. Without a mask a
    block is causal, and a trunk is seen whole."""
    repeats: int = 1
    """Causal blocks of one length that stand side by side in these ranges, each of which sees itself alone."""

    @property
    def is_causal(self) -> bool:
        """A block in which a query sees all keys up to itself."""
        return self.mask is None and isinstance(self.keys, slice) and self.keys == self.queries


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackedRows:
    """How a packed stream of t tokens is cut into rows, and which tokens are distinct."""

    distinct: Tensor
    """(u,) int64, the place in the stream where each distinct token is computed, depth first."""
    state_of: Tensor
    """(t,) int64, the distinct token that stands at each place."""
    ends: Tensor
    """(u,) int64: distinct token j is seen by distinct tokens j to ends[j] - 1, and by no others."""
    row_offsets: NDArray[np.int64]
    """(r + 1,) as given."""
    blocks: tuple[Tile, ...]
    """Ranges that see themselves; together they are every distinct token once, in order. Tiles are for a CPU alone."""
    trunks: tuple[Tile, ...]
    """Shared beginnings, each seen by rows behind its block."""
    flex_mask: BlockMask | None
    """`ends` as FlexAttention reads them; None on a CPU, which goes by tiles."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Tokens of one row that are seen equally far."""

    start: int
    end: int
    seen_to: int


@dataclass(frozen=True, slots=True)
class _Trunk:
    """Neighboring keys, and the queries behind their block, each of which sees one at least."""

    keys: range
    queries: range
    is_whole: bool
    """Every query sees every key."""


def pack_rows(token_ids: Tensor, row_offsets: Tensor) -> PackedRows:
    """Find common beginnings, and the tiles of attention.

    Args:
        token_ids: (t,) int64.
        row_offsets: (r + 1,) int64, ascending from 0; every row has a token.

    Returns:
        A function of the tokens and row lengths alone; the order of the distinct tokens is one of the rows' contents.
    """
    device = token_ids.device
    ids, offsets = token_ids.cpu().numpy(), row_offsets.cpu().numpy()
    order, shared = _sorted_rows(ids, offsets)
    lengths = np.diff(offsets)[order]
    starts = np.concatenate([[0], np.cumsum(lengths - shared)])
    distinct, state_of = np.empty(starts[-1], np.int64), np.empty(len(ids), np.int64)
    above = 0
    for place, same, low, high in zip(offsets[order], shared, starts, starts[1:], strict=False):
        state_of[place : place + same] = state_of[above : above + same]
        state_of[place + same : place + same + high - low] = np.arange(low, high)
        distinct[low:high] = np.arange(place + same, place + same + high - low)
        above = place
    stretches = _stretches(lengths, shared, starts)
    ends = np.repeat([one.seen_to for one in stretches], [one.end - one.start for one in stretches])
    bounds = _block_bounds(stretches)
    seen_to, has_tiles = torch.from_numpy(ends).to(device), device.type == "cpu"
    return PackedRows(
        distinct=torch.from_numpy(distinct).to(device),
        state_of=torch.from_numpy(state_of).to(device),
        ends=seen_to,
        row_offsets=offsets,
        blocks=tuple(_blocks(bounds, ends)) if has_tiles else (),
        trunks=tuple(_taken_along(list(_trunks(stretches, bounds)), ends)) if has_tiles else (),
        flex_mask=None if has_tiles else tree_mask(seen_to),
    )


def tree_mask(ends: Tensor) -> BlockMask:
    """Who sees whom, as FlexAttention reads it.

    Its blocks are read off the ends themselves: the mask of all pairs, which torch would make to find them, takes a
    byte for each, and more on the way.

    Args:
        ends: (u,) int64, as of `PackedRows`.

    Returns:
        On the device of `ends`.
    """

    def sees(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query < ends[key])

    partial, full = _seen_blocks(ends.cpu().numpy())
    return BlockMask.from_kv_blocks(
        *_ordered(partial, ends.device),
        *_ordered(full, ends.device),
        BLOCK_SIZE=FLEX_BLOCK,
        mask_mod=sees,
        seq_lengths=(len(ends), len(ends)),
    )


def _seen_blocks(ends: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(b, b) each, by blocks of queries and of keys: pairs of which some see, and pairs of which all do."""
    starts = np.arange(0, len(ends), FLEX_BLOCK)
    latest, earliest = np.maximum.reduceat(ends, starts), np.minimum.reduceat(ends, starts)
    is_before = starts < starts[:, None]
    full = is_before & (earliest >= starts[:, None] + FLEX_BLOCK)
    some = (is_before & (latest > starts[:, None])) | np.eye(len(starts), dtype=np.bool_)
    return some & ~full, full


def _ordered(is_seen: NDArray[np.bool_], device: torch.device) -> tuple[Tensor, Tensor]:
    """(1, 1, b) how many blocks of keys each block of queries sees, and (1, 1, b, b) which, those first."""
    counts, order = is_seen.sum(1), np.argsort(~is_seen, axis=1, kind="stable")
    of_counts, of_order = (torch.from_numpy(one.astype(np.int32)).to(device) for one in (counts, order))
    return of_counts[None, None], of_order[None, None]


def _sorted_rows(ids: NDArray[np.int64], offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows by their tokens, equal ones in order, and how many tokens each has in common with the one before it."""
    big_endian = ids.astype(">i8")
    rows = [big_endian[low:high].tobytes() for low, high in zip(offsets, offsets[1:], strict=False)]
    order = sorted(range(len(rows)), key=rows.__getitem__)
    shared = np.zeros(len(rows), np.int64)
    for number, (above, row) in enumerate(zip(order, order[1:], strict=False), start=1):
        most = min(len(rows[above]), len(rows[row])) // 8
        differs = ids[offsets[above] : offsets[above] + most] != ids[offsets[row] : offsets[row] + most]
        shared[number] = int(differs.argmax()) if differs.any() else most
    return np.array(order, np.int64), shared


def _stretches(lengths: NDArray[np.int64], shared: NDArray[np.int64], starts: NDArray[np.int64]) -> list[_Stretch]:
    """Distinct tokens in order, cut where what sees them changes and where a row leaves another."""
    found: list[_Stretch] = []
    path: list[tuple[int, int, int]] = []  # (depth, first token, last + 1) along the row above

    def close(depth: int, seen_to: int) -> None:
        while path and path[-1][0] + path[-1][2] - path[-1][1] > depth:
            top, low, high = path.pop()
            kept = low + max(depth - top, 0)
            if kept > low:
                path.append((top, low, kept))
            found.append(_Stretch(kept, high, seen_to))

    for length, same, low, high in zip(lengths.tolist(), shared.tolist(), starts.tolist(), starts[1:], strict=False):
        close(same, low)
        if length > same:
            path.append((same, low, int(high)))
    close(0, int(starts[-1]))
    return sorted(found, key=lambda one: one.start)


def _block_bounds(stretches: Iterable[_Stretch]) -> list[int]:
    """Where blocks begin, and the end: a branch of its own where it is long, a few together where they are short."""
    bounds, last = [0], 0
    for branch_end in _branch_ends(stretches):
        if branch_end - bounds[-1] > BLOCK_TOKENS and last > bounds[-1]:
            bounds.append(last)
        last = branch_end
    return [*bounds, last] if last else bounds


def _branch_ends(stretches: Iterable[_Stretch]) -> Iterator[int]:
    """Ends of the causal runs: a stretch that nothing behind it sees ends one."""
    return (one.end for one in stretches if one.seen_to == one.end)


def _blocks(bounds: list[int], ends: NDArray[np.int64]) -> Iterator[Tile]:
    """Causal neighbors of one length as one tile."""
    run, size, repeats = 0, 0, 0
    for low, high in zip(bounds, bounds[1:], strict=False):
        is_causal = bool((ends[low:high] >= high).all())
        if repeats and not (is_causal and high - low == size):
            yield _causal(run, low, repeats)
            repeats = 0
        if is_causal:
            run, size, repeats = (run if repeats else low), high - low, repeats + 1
        else:
            places = np.arange(low, high)
            mask = _mask(places, places, ends)
            yield Tile(queries=slice(low, high), keys=slice(low, high), mask=mask)
    if repeats:
        yield _causal(run, bounds[-1], repeats)


def _causal(low: int, high: int, repeats: int) -> Tile:
    return Tile(queries=slice(low, high), keys=slice(low, high), mask=None, repeats=repeats)


def _trunks(stretches: Iterable[_Stretch], bounds: list[int]) -> Iterator[_Trunk]:
    """Neighbors of one block go together where the masked pairs cost less than a call."""
    group: list[_Stretch] = []
    block = 0
    for one in stretches:
        while bounds[block + 1] <= one.start:
            if group:
                yield _trunk(group, bounds[block + 1])
            group, block = [], block + 1
        behind = bounds[block + 1]
        if one.seen_to <= behind:
            continue
        if group and not _fits(group, one, behind):
            yield _trunk(group, behind)
            group = []
        group.append(one)
    if group:
        yield _trunk(group, bounds[block + 1])


def _fits(group: list[_Stretch], one: _Stretch, behind: int) -> bool:
    if group[-1].end != one.start:
        return False
    most = max(group[0].seen_to, one.seen_to)
    wasted = sum((most - each.seen_to) * (each.end - each.start) for each in (*group, one))
    return wasted <= CALL_PAIRS and (most - behind) * (one.end - group[0].start) <= MASK_NUMBERS


def _trunk(group: list[_Stretch], behind: int) -> _Trunk:
    last = max(one.seen_to for one in group)
    is_whole = all(one.seen_to == last for one in group)
    return _Trunk(range(group[0].start, group[-1].end), range(behind, last), is_whole)


def _taken_along(trunks: Sequence[_Trunk], ends: NDArray[np.int64]) -> Iterator[Tile]:
    """Trunks as tiles, by their keys; queries of two trunks are apart, or some of one are all of the other.

    A short one's keys go to the trunks within its queries, and tiles of its own are left for queries between those.
    """
    above: dict[int, NDArray[np.int64]] = {}
    for number, one in enumerate(trunks):
        keys = np.concatenate([above.pop(number, np.empty(0, np.int64)), np.arange(one.keys.start, one.keys.stop)])
        inner = _outermost_within(trunks, number) if one.is_whole and len(keys) <= SHORT_KEYS else []
        gaps = _gaps(one.queries, [trunks[taker].queries for taker in inner])
        if len(one.queries) - sum(map(len, gaps)) >= TAKEN_QUERIES * len(gaps):
            above |= dict.fromkeys(inner, keys)
        else:
            gaps = [one.queries]
        is_range = len(keys) == len(one.keys)
        for gap in gaps:
            yield Tile(
                queries=slice(gap.start, gap.stop),
                keys=slice(one.keys.start, one.keys.stop) if is_range else torch.from_numpy(keys),
                mask=None if one.is_whole else _mask(np.arange(gap.start, gap.stop), keys, ends),
            )


def _outermost_within(trunks: Sequence[_Trunk], number: int) -> list[int]:
    """Of the trunks behind one, those that are seen whole by some of its queries, in order and apart."""
    found: list[int] = []
    place, last = trunks[number].queries.start, trunks[number].queries.stop
    for other in range(number + 1, len(trunks)):
        queries = trunks[other].queries
        if queries.start >= last:
            break
        if trunks[other].is_whole and queries.start >= place:
            found.append(other)
            place = queries.stop
    return found


def _gaps(queries: range, taken: Sequence[range]) -> list[range]:
    """What is left of a range without ranges in it, which are in order and apart."""
    starts = [queries.start, *(one.stop for one in taken)]
    stops = [*(one.start for one in taken), queries.stop]
    return [range(start, stop) for start, stop in zip(starts, stops, strict=True) if stop > start]


def _mask(queries: NDArray[np.int64], keys: NDArray[np.int64], ends: NDArray[np.int64]) -> Tensor:
    sees = (keys <= queries[:, None]) & (queries[:, None] < ends[keys])
    return torch.from_numpy(np.where(sees, np.float32(0.0), np.float32(-np.inf)))
