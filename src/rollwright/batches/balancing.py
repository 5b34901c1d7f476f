"""Rows shared out so that every part holds about as many tokens: largest differencing (Karmarkar and Karp, 1982).

each row: its length in one of k loads ──► the two entries whose loads differ most become one, the largest load of
the one with the smallest of the other ──► … ──► one entry of k loads
"""

import heapq
from collections.abc import Sequence

from rollwright.batches.errors import BatchError

__all__ = ["balanced_groups", "balanced_parts"]

_UNEVEN = 1.1
"""The largest load of whole groups over an equal share, from which rows are shared out alone."""

_Part = tuple[int, tuple[int, ...]]
"""Tokens, and the places of the rows that have them."""


def balanced_parts(lengths: Sequence[int], num_parts: int) -> tuple[tuple[int, ...], ...]:
    """Share rows out among parts whose loads are nearly equal.

    Args:
        lengths: tokens of each row.
        num_parts: at least 1.

    Returns:
        Places in `lengths` for each part, rising; every place in exactly one part, and a part without rows where there
        are too few. A function of the arguments alone, so that all ranks find the same parts.
    """
    if num_parts < 1:
        raise BatchError(f"rows are to be shared out among {num_parts} parts; it needs at least 1.")
    if not lengths:
        return ((),) * num_parts
    heap = [_entry(number, [(int(length), (number,))], num_parts) for number, length in enumerate(lengths)]
    heapq.heapify(heap)
    number = len(heap)
    while len(heap) > 1:
        _, _, first = heapq.heappop(heap)
        _, _, second = heapq.heappop(heap)
        joined = [(a + b, (*rows, *more)) for (a, rows), (b, more) in zip(first, reversed(second), strict=True)]
        heapq.heappush(heap, _entry(number, joined, num_parts))
        number += 1
    (_, _, parts) = heap[0]
    return tuple(tuple(sorted(rows)) for _, rows in parts)


def balanced_groups(lengths: Sequence[int], groups: Sequence[int], num_parts: int) -> tuple[tuple[int, ...], ...]:
    """Share rows out among parts, those of a group in one part where the loads come out even.

    Args:
        lengths: tokens of each row.
        groups: of each row, equal values are attempts at one task, whose prompt one part then computes alone.
        num_parts: at least 1.

    Returns:
        As `balanced_parts`; rows alone where whole groups would leave a part with a tenth more than an equal share.
    """
    members: dict[int, list[int]] = {}
    for place, group in enumerate(groups):
        members.setdefault(group, []).append(place)
    whole = list(members.values())
    loads = [sum(int(lengths[place]) for place in places) for places in whole]
    parts = balanced_parts(loads, num_parts)
    if max(sum(loads[unit] for unit in part) for part in parts) * num_parts > _UNEVEN * sum(loads):
        return balanced_parts(lengths, num_parts)
    return tuple(tuple(sorted(place for unit in part for place in whole[unit])) for part in parts)


def _entry(number: int, parts: list[_Part], num_parts: int) -> tuple[int, int, list[_Part]]:
    """How far its loads are apart, negative, since the heap gives the least first; equal ones in order of making."""
    empty: list[_Part] = [(0, ())] * (num_parts - len(parts))
    ordered = sorted([*parts, *empty], key=lambda part: (-part[0], part[1]))
    return ordered[-1][0] - ordered[0][0], number, ordered
