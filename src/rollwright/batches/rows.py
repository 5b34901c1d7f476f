"""Rows: the branches of a step's members in their one order, and where each segment stands in the packed stream."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rollwright.batches.errors import BatchError
from rollwright.record import Group, ScoredTrajectory, Segment, Trajectory, branches

__all__ = ["Branch", "Place", "branches_of", "members_of", "owners_of", "places_of", "row_offsets_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A path from root to leaf of one member."""

    member: int
    segments: tuple[int, ...]


class Place(NamedTuple):
    """One segment in one row: its tokens are `start:stop` of the stream."""

    row: int
    member: int
    segment: Segment
    start: int
    stop: int


def members_of(groups: Sequence[Group]) -> tuple[ScoredTrajectory, ...]:
    """All members of whole groups, sorted by (group_id, slot, attempt).

    Args:
        groups: of one step, in any order.

    Returns:
        The members; no group twice, nobody whose episode may not be trained.
    """
    numbers = [group.group_id for group in groups]
    if len(set(numbers)) != len(numbers):
        raise BatchError(f"the step has groups {sorted(numbers)}; each dispatch is a group of its own and trains once.")
    for group in groups:
        for member in group.members:
            if not member.trajectory.terminal_reason.is_trainable:
                raise BatchError(
                    f"{member.trajectory_id} ended as {member.trajectory.terminal_reason}, which is never trained; "
                    "retry its slot or leave it out of the group."
                )
    return tuple(member for group in sorted(groups, key=lambda g: g.group_id) for member in group.members)


def branches_of(members: Sequence[ScoredTrajectory]) -> tuple[Branch, ...]:
    """The rows of a batch, in order: a member's branches stand by leaf segment."""
    return tuple(
        Branch(member=index, segments=path)
        for index, member in enumerate(members)
        for path in branches(member.trajectory.segments)
    )


def row_offsets_of(members: Sequence[ScoredTrajectory], rows: Sequence[Branch]) -> NDArray[np.int64]:
    """(R + 1,) where each row begins in the packed stream."""
    lengths = [_length(members[row.member].trajectory, row.segments) for row in rows]
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.asarray(lengths, np.int64))])


def places_of(
    members: Sequence[ScoredTrajectory], rows: Sequence[Branch], row_offsets: NDArray[np.int64]
) -> Iterator[Place]:
    """Every segment of every row, in stream order, empty ones too."""
    for index, (row, offset) in enumerate(zip(rows, row_offsets.tolist(), strict=False)):
        segments = members[row.member].trajectory.segments
        for number in row.segments:
            segment = segments[number]
            start = offset + segment.start
            yield Place(index, row.member, segment, start, start + len(segment.token_ids))


def owners_of(places: Sequence[Place], withheld: Sequence[str | None]) -> dict[tuple[int, int], int]:
    """The row in which each segment stands: the first that is not withheld, else the first.

    Args:
        places: of eligible segments, in stream order.
        withheld: a reason or None for each row.

    Returns:
        (member, segment) to row.
    """
    owners: dict[tuple[int, int], int] = {}
    for place in places:
        key = (place.member, place.segment.segment)
        holder = owners.setdefault(key, place.row)
        if withheld[holder] is not None and withheld[place.row] is None:
            owners[key] = place.row
    return owners


def _length(trajectory: Trajectory, path: tuple[int, ...]) -> int:
    leaf = trajectory.segments[path[-1]]
    return leaf.start + leaf.num_tokens
