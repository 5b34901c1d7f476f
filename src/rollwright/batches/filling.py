"""Which rows of an update stand in one micro-batch: whole groups, so that what they share is computed once.

rows ──lengths, common beginnings──► units: groups, or runs of rows of a group too large ──filled in order──► parts

What a micro-batch costs is its distinct tokens: a beginning that rows share counts once. Parts hold about equally many.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from rollwright.batches.errors import BatchError

__all__ = ["Counted", "fill", "shared_beginnings"]

_MOST_COPIES = 8
"""Tokens of all rows of a micro-batch over its budget, at most: attention may need each row whole."""


class Counted(Enum):
    """What a token budget counts."""

    DISTINCT = "distinct"
    """A beginning that neighbors share once: for a model that computes it once."""
    ROWS = "rows"
    """Every token of every row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """Rows that stay together."""

    rows: tuple[int, ...]
    """Their places, ascending."""
    first: int
    """Tokens where it opens a part."""
    more: int
    """Tokens that it adds to a part."""
    tokens: int
    """Of its rows, copies included."""
    longest: int


def fill(
    token_ids: NDArray[np.int32],
    bounds: NDArray[np.int64],
    groups: NDArray[np.int64],
    token_budget: int,
    counted: Counted = Counted.DISTINCT,
) -> tuple[tuple[int, ...], ...]:
    """Share rows out among micro-batches, groups with long rows first.

    Args:
        token_ids: of the step's stream.
        bounds: (R, 2) where each row begins and ends in it; rows of a group stand next to each other.
        groups: (R,) equal values are attempts at one task.
        token_budget: distinct tokens of a micro-batch, at least 1. Its rows have at most eight times as many tokens.
        counted: what of a row counts.

    Returns:
        Places of rows, longest first in each part, equal ones in order; every row in exactly one. A part above the
        budget is a single row; a group within it is in one part. A function of the arguments alone.
    """
    if token_budget < 1:
        raise BatchError(f"the token budget of a micro-batch is {token_budget}; it needs at least 1.")
    lengths = bounds[:, 1] - bounds[:, 0]
    if not len(lengths):
        return ()
    shared = shared_beginnings(token_ids, bounds) if counted is Counted.DISTINCT else np.zeros_like(lengths)
    of_all = int(shared[1:].min(initial=int(lengths[0])))
    units = _units(lengths, shared, groups, of_all, token_budget)
    units.sort(key=lambda unit: (-unit.longest, unit.rows[0]))
    parts = [[row for unit in part for row in unit.rows] for part in _balanced(units, token_budget)]
    return tuple(tuple(sorted(part, key=lambda row: (-int(lengths[row]), row))) for part in parts)


def shared_beginnings(token_ids: NDArray[np.int32], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many tokens each row has in common with the row before it, from their beginnings on.

    Args:
        token_ids: of the step's stream.
        bounds: (R, 2) where each row begins and ends in it.

    Returns:
        (R,) 0 for the first row.
    """
    lengths = bounds[:, 1] - bounds[:, 0]
    widths = np.minimum(lengths[1:], lengths[:-1])
    ends = np.cumsum(widths)
    begins = ends - widths
    column = np.arange(int(widths.sum())) - np.repeat(begins, widths)
    above, below = (token_ids[np.repeat(starts, widths) + column] for starts in (bounds[:-1, 0], bounds[1:, 0]))
    differing = np.append(np.flatnonzero(above != below), len(column))
    found = np.minimum(differing[np.searchsorted(differing, begins)], ends) - begins
    return np.concatenate([np.zeros(1, np.int64), found])[: len(lengths)]


def _units(
    lengths: NDArray[np.int64], shared: NDArray[np.int64], groups: NDArray[np.int64], of_all: int, budget: int
) -> list[_Item]:
    """Groups that fit, and pieces of those that do not."""
    borders = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
    sizes, commons = lengths.tolist(), shared.tolist()
    units: list[_Item] = []
    for begin, end in zip(borders[:-1], borders[1:], strict=True):
        rows = [
            _Item(rows=(row,), first=sizes[row], more=sizes[row] - commons[row], tokens=sizes[row], longest=sizes[row])
            for row in range(begin, end)
        ]
        units += [_joined(part, of_all) for part in _balanced(rows, budget)]
    return units


def _joined(items: Sequence[_Item], of_all: int) -> _Item:
    """One item of several; where it joins others, what all rows of the update share stands there already."""
    first = items[0].first + sum(item.more for item in items[1:])
    return _Item(
        rows=tuple(row for item in items for row in item.rows),
        first=first,
        more=first - of_all,
        tokens=sum(item.tokens for item in items),
        longest=max(item.longest for item in items),
    )


def _balanced(items: Sequence[_Item], budget: int) -> list[list[_Item]]:
    """As few runs of items as the budget allows, the largest as small as that many allow."""
    fewest = _runs(items, budget, budget)
    if len(fewest) == 1:
        return fewest
    low, high = 0, budget
    while high - low > 1:
        middle = (low + high) // 2
        if len(_runs(items, middle, budget)) == len(fewest):
            high = middle
        else:
            low = middle
    return _runs(items, high, budget)


def _runs(items: Sequence[_Item], limit: int, budget: int) -> list[list[_Item]]:
    """Fill one run after the other, in order; an item above the limit stands alone."""
    runs: list[list[_Item]] = []
    size = tokens = 0
    for item in items:
        if not runs or size + item.more > limit or tokens + item.tokens > _MOST_COPIES * budget:
            runs.append([item])
            size, tokens = item.first, item.tokens
        else:
            runs[-1].append(item)
            size, tokens = size + item.more, tokens + item.tokens
    return runs
