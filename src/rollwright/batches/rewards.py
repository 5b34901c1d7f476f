"""Rewards of rows and of turns, and the environment states that actions started from."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rollwright.batches.errors import BatchError
from rollwright.batches.layout import StepBatch
from rollwright.batches.rows import Branch, Place
from rollwright.record import ScoredTrajectory, Verdict

__all__ = ["num_moved_rewards", "row_reward", "state_indices", "step_rewards"]


def row_reward(member: ScoredTrajectory, row: Branch, shared: frozenset[int]) -> float:
    """What the row's end was worth: the leaf's own verdict in a fork, else the trajectory's reward.

    Args:
        member: whose row it is.
        row: a path from root to leaf.
        shared: segments of the member that stand in more than one row.

    Returns:
        Verifier units; NaN where unscored.
    """
    if not shared.isdisjoint(row.segments):
        leaf = row.segments[-1]
        found = [v for v in member.verdicts if v.scope == "segment" and v.span is not None and v.span.segment == leaf]
        if len(found) > 1:
            raise BatchError(
                f"{member.trajectory_id}: leaf {leaf} of a fork has verdicts of {[v.verifier for v in found]}; a leaf "
                "has one reward. Compose them into one verdict of scope segment."
            )
        if found:
            return _number(found[0].outcome)
    return _number(member.outcome)


def step_rewards(
    members: Sequence[ScoredTrajectory], places: Sequence[Place], acts: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """What turns were paid, on the last action token up to the end of the segment that the verdict names.

    Args:
        members: of the batch.
        places: every segment of every row, in stream order.
        acts: (T,) bool.

    Returns:
        (T,) 0 elsewhere. A reward before the row's first action token moves to that token (E7).
    """
    paid = np.zeros(len(acts), np.float64)
    rewards = [_turn_rewards(member) for member in members]
    if not any(rewards):
        return paid
    tokens = np.flatnonzero(acts)
    first = {row: int(start) for row, start in _row_bounds(places)}
    last = {place.row: place.stop for place in places}
    for place in places:
        for segment, value in rewards[place.member]:
            if segment != place.segment.segment:
                continue
            low, high = np.searchsorted(tokens, (first[place.row], last[place.row]))
            if low < high:
                before = int(np.searchsorted(tokens, place.stop))
                paid[tokens[max(before - 1, low)]] += value
    return paid


def num_moved_rewards(batch: StepBatch) -> int:
    """How many rewards of turns stand behind a token that the policy did not sample, so that another one is paid.

    Args:
        batch: of a step; a row without any action token loses its rewards and is not counted.
    """
    rewards = [_turn_rewards(member) for member in batch.members]
    if not any(rewards):
        return 0
    moved = 0
    for row, start, stop in zip(batch.rows, batch.row_offsets[:-1], batch.row_offsets[1:], strict=True):
        if not batch.acts[start:stop].any():
            continue
        segments = batch.members[row.member].trajectory.segments
        ends = {number: int(start) + segments[number].start + segments[number].num_tokens for number in row.segments}
        paid = [ends[segment] for segment, value in rewards[row.member] if value and segment in ends]
        moved += sum(not batch.acts[end - 1] for end in paid)
    return moved


def state_indices(members: Sequence[ScoredTrajectory], places: Sequence[Place], num_tokens: int) -> NDArray[np.int64]:
    """The environment state that each token started from, numbered within the batch by group and hash.

    Args:
        members: of the batch.
        places: every segment of every row, in stream order.
        num_tokens: T.

    Returns:
        (T,) equal values are equal hashes in one group; -1 where the environment gave none.
    """
    numbers: dict[tuple[int, str], int] = {}
    index = np.full(num_tokens, -1, np.int64)
    row, state = -1, None
    for place in places:
        trajectory = members[place.member].trajectory
        if place.row != row:
            row, state = place.row, trajectory.initial_state_hash
        if state is not None:
            number = numbers.setdefault((trajectory.group_id, state), len(numbers))
            index[place.start : place.stop] = number
        if place.segment.state_hash is not None:
            state = place.segment.state_hash
    return index


def _number(outcome: float | str) -> float:
    return float("nan") if isinstance(outcome, str) else float(outcome)


def _turn_rewards(member: ScoredTrajectory) -> list[tuple[int, float]]:
    """(segment, value) of each verdict on a turn, once, wherever it was stored."""
    found: dict[tuple[str, int], float] = {}
    verdicts: tuple[Verdict, ...] = (*member.trajectory.turn_rewards, *member.verdicts)
    for verdict in verdicts:
        if verdict.scope == "turn" and verdict.span is not None and not isinstance(verdict.outcome, str):
            found[verdict.verifier, verdict.span.segment] = float(verdict.outcome)
    return [(segment, value) for (_, segment), value in found.items()]


def _row_bounds(places: Sequence[Place]) -> Iterator[tuple[int, int]]:
    row = -1
    for place in places:
        if place.row != row:
            row = place.row
            yield row, place.start
