"""The batch before credit: rows, streams and rewards laid out, nothing withheld yet."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rollwright.algorithms.staleness.lag import lag_of
from rollwright.batches.errors import BatchError
from rollwright.batches.layout import BatchRow, CreditFacts, StepBatch
from rollwright.batches.rewards import row_reward, state_indices, step_rewards
from rollwright.batches.rows import Branch, Place, branches_of, members_of, places_of, row_offsets_of
from rollwright.batches.rules import BatchRules, SegmentScores
from rollwright.batches.streams import (
    Streams,
    refuse_unscorable,
    routed_experts_of,
    score_streams,
    streams_of,
    support_of,
)
from rollwright.record import Group, ScoredTrajectory, Trajectory, is_eligible

__all__ = ["is_stale", "lay_out"]


def lay_out(
    groups: Sequence[Group],
    *,
    step: int,
    eligible: frozenset[tuple[str, str | None]],
    rules: BatchRules,
    scores: Sequence[SegmentScores] = (),
) -> StepBatch:
    """Lay out the batch before credit: nothing owned, withheld or trained, and advantages of 0.

    Args:
        groups: of one step, in any order; demonstrations are groups of one.
        step: the step that consumes them.
        eligible: (origin, policy) pairs that are trained.
        rules: staleness and support.
        scores: what models said of segments beforehand (reference, teacher, proximal, predicted, bootstrap).
    """
    members = members_of(groups)
    branches = branches_of(members)
    lags = [_lag(member, step, eligible) for member in members]
    offsets = row_offsets_of(members, branches)
    places = tuple(places_of(members, branches, offsets))
    _refuse_unscorable(members, places, eligible, rules)
    num_tokens = int(offsets[-1])
    streams = streams_of(places, offsets, eligible)
    rewards = _row_rewards(members, branches, rules, lags)
    bootstrap = _bootstrap(members, branches, scores)
    facts = _facts(members, branches, places, streams, rewards=rewards, bootstrap=bootstrap)
    return StepBatch(
        step=step,
        model=rules.model,
        members=members,
        rows=tuple(_row(branch, lags[branch.member]) for branch in branches),
        row_offsets=offsets,
        token_ids=streams.token_ids,
        segment_ids=streams.segment_ids,
        acts=streams.acts,
        action_mask=np.zeros(num_tokens, np.bool_),
        behavior=streams.behavior,
        policy_versions=streams.policy_versions,
        temperature=streams.temperature,
        advantages=np.zeros(num_tokens, np.float64),
        value_targets=None,
        untrained={},
        eligible=eligible,
        facts=facts,
        scores=score_streams(members, places, num_tokens, scores),
        support=support_of(places, num_tokens),
        routed_experts=routed_experts_of(places, num_tokens),
    )


def is_stale(lag: int, rules: BatchRules) -> bool:
    """True where a trajectory of this lag leaves whole; a lag equal to the bound is inside."""
    return rules.stale_unit == "trajectory" and lag > rules.max_lag


def _refuse_unscorable(
    members: Sequence[ScoredTrajectory],
    places: Sequence[Place],
    eligible: frozenset[tuple[str, str | None]],
    rules: BatchRules,
) -> None:
    for place in places:
        if is_eligible(place.segment, eligible):
            refuse_unscorable(members[place.member], place.segment, rules.support)


def _row(branch: Branch, lag: int) -> BatchRow:
    return BatchRow(member=branch.member, segments=branch.segments, owns=(), stale_segments=(), withheld=None, lag=lag)


def _facts(
    members: Sequence[ScoredTrajectory],
    branches: Sequence[Branch],
    places: Sequence[Place],
    streams: Streams,
    *,
    rewards: NDArray[np.float64],
    bootstrap: NDArray[np.float64] | None,
) -> CreditFacts:
    trajectories = [members[branch.member].trajectory for branch in branches]
    return CreditFacts(
        rewards=rewards,
        group_index=np.asarray([t.group_id for t in trajectories], np.int64),
        source_index=_source_index(trajectories),
        episode_index=np.asarray([branch.member for branch in branches], np.int64),
        is_truncated=np.asarray([t.terminal_reason.is_truncated for t in trajectories], np.bool_),
        step_rewards=step_rewards(members, places, streams.acts),
        turn_index=streams.turn_index,
        state_index=state_indices(members, places, len(streams.acts)),
        bootstrap=bootstrap,
    )


def _lag(member: ScoredTrajectory, step: int, eligible: frozenset[tuple[str, str | None]]) -> int:
    """(step - 1) - version of the oldest token that would be trained; 0 where nothing was sampled."""
    versions = [
        s.policy_version
        for s in member.trajectory.segments
        if s.num_tokens and s.policy_version is not None and is_eligible(s, eligible)
    ]
    if not versions:
        return 0
    if max(versions) > step - 1:
        raise BatchError(
            f"{member.trajectory_id} has tokens of policy version {max(versions)} in step {step}; the newest weights "
            f"before that step are version {step - 1}."
        )
    return lag_of(min(versions), learner_version=step - 1)


def _row_rewards(
    members: Sequence[ScoredTrajectory], branches: Sequence[Branch], rules: BatchRules, lags: Sequence[int]
) -> NDArray[np.float64]:
    """(R,) what credit compares; NaN where a row is outside its group's statistics."""
    shared = _shared_segments(branches, len(members))
    rewards = np.full(len(branches), np.nan, np.float64)
    for index, branch in enumerate(branches):
        if not (is_stale(lags[branch.member], rules) and rules.stale_reward == "drop"):
            rewards[index] = row_reward(members[branch.member], branch, shared[branch.member])
    return rewards


def _shared_segments(branches: Sequence[Branch], num_members: int) -> list[frozenset[int]]:
    """Of each member, the segments that stand in more than one row."""
    seen: list[set[int]] = [set() for _ in range(num_members)]
    shared: list[set[int]] = [set() for _ in range(num_members)]
    for branch in branches:
        shared[branch.member] |= seen[branch.member].intersection(branch.segments)
        seen[branch.member] |= set(branch.segments)
    return [frozenset(segments) for segments in shared]


def _source_index(trajectories: Sequence[Trajectory]) -> NDArray[np.int64]:
    """(R,) the task source of each row, numbered in alphabetical order."""
    sources = [trajectory.task.source for trajectory in trajectories]
    numbers = {source: number for number, source in enumerate(sorted(set(sources)))}
    return np.asarray([numbers[source] for source in sources], np.int64)


def _bootstrap(
    members: Sequence[ScoredTrajectory], branches: Sequence[Branch], scores: Sequence[SegmentScores]
) -> NDArray[np.float64] | None:
    given = {(s.trajectory_id, s.segment): float(s.values[0]) for s in scores if s.name == "bootstrap"}
    if not given:
        return None
    leaves = [(members[b.member].trajectory_id, b.segments[-1]) for b in branches]
    return np.asarray([given.get(leaf, np.nan) for leaf in leaves], np.float64)
