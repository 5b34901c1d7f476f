"""From whole groups to a step's batch: rows, streams, rewards, credit, and what is withheld.

    groups ─lay_out─► draft: members, rows, streams, rewards ──(scores of the learner)──► give_credit ─► batch

A draft becomes a batch by its credit, withheld rows, owners and action mask; what the credit reads of the learner is
added to the draft between the two. Credit sees every action token of every branch; a shared segment then takes the mean
of its copies. Weights see each token once, in the row that owns its segment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from rollwright.algorithms.credit.groups import ZERO_CONTRAST
from rollwright.algorithms.objective import Objective
from rollwright.algorithms.staleness.lag import lag_of
from rollwright.batches.credit_inputs import credit_inputs
from rollwright.batches.drafting import is_stale, lay_out
from rollwright.batches.errors import BatchError
from rollwright.batches.layout import BatchRow, StepBatch
from rollwright.batches.rows import Place, owners_of
from rollwright.batches.rules import BatchRules, SegmentScores
from rollwright.record import Group, ScoredTrajectory, is_eligible

__all__ = ["give_credit", "plan_step", "with_score"]


def plan_step(
    groups: Sequence[Group],
    *,
    step: int,
    objective: Objective,
    eligible: frozenset[tuple[str, str | None]],
    rules: BatchRules,
    scores: Sequence[SegmentScores] = (),
) -> StepBatch:
    """Lay out the members of whole groups and give each action token its credit, from scores that stand beforehand.

    Args:
        groups: of one step, in any order; demonstrations are groups of one.
        step: the step that consumes them.
        objective: whose credit is made.
        eligible: (origin, policy) pairs that are trained.
        rules: staleness and support.
        scores: what models said of segments beforehand (reference, teacher, proximal, predicted, bootstrap).

    Returns:
        The batch; equal, bit for bit, whatever the order of `groups`.
    """
    return give_credit(
        lay_out(groups, step=step, eligible=eligible, rules=rules, scores=scores), objective, rules=rules
    )


def give_credit(draft: StepBatch, objective: Objective, *, rules: BatchRules) -> StepBatch:
    """Give each action token its credit, and withhold what the rules say.

    Args:
        draft: from `lay_out`, with every score that the credit reads.
        objective: whose credit is made.
        rules: those that the draft was laid out by.

    Returns:
        The batch; its scores are those of the draft.
    """
    credit = objective.credit(credit_inputs(draft, range(len(draft.rows)), draft.acts))
    reasons = [
        _reason(row, draft.members[row.member], credit.untrained.get(index), rules)
        for index, row in enumerate(draft.rows)
    ]
    withheld = [None if reason == ZERO_CONTRAST else reason for reason in reasons]
    places = _eligible_places(draft)
    rows = _owning(draft.rows, owners_of(places, withheld), withheld, _stale_segments(places, draft.step, rules))
    advantages = _shared_mean(_scatter(credit.advantages, draft.acts), places, withheld)
    targets = credit.value_targets
    return replace(
        draft,
        rows=rows,
        action_mask=_trained(draft.acts, places, rows),
        advantages=advantages,
        value_targets=None if targets is None else _shared_mean(_scatter(targets, draft.acts), places, withheld),
        untrained={index: reason for index, reason in enumerate(reasons) if reason is not None},
    )


def with_score(batch: StepBatch, name: str, values: NDArray[np.float32]) -> StepBatch:
    """The batch with one more stream, such as what the learner scored before the first update.

    Args:
        batch: a step's batch of T tokens.
        name: proximal, reference, teacher, predicted, or entropy or sum_squared_probabilities of the proximal policy.
        values: (T,) NaN where nothing was scored.

    Returns:
        A new batch; credit that stands is not made again.
    """
    if values.shape != batch.token_ids.shape:
        raise BatchError(f"stream {name} has shape {values.shape}; the batch has {len(batch.token_ids)} tokens.")
    return replace(batch, scores={**batch.scores, name: values})


def _owning(
    rows: Sequence[BatchRow],
    owners: Mapping[tuple[int, int], int],
    withheld: Sequence[str | None],
    stale: frozenset[tuple[int, int]],
) -> tuple[BatchRow, ...]:
    """The rows with what they own, and why they are withheld."""
    owned = [tuple(s for s in row.segments if owners.get((row.member, s)) == index) for index, row in enumerate(rows)]
    return tuple(
        BatchRow(
            member=row.member,
            segments=row.segments,
            owns=owned[index],
            stale_segments=tuple(s for s in owned[index] if (row.member, s) in stale) if stale else (),
            withheld=withheld[index],
            lag=row.lag,
        )
        for index, row in enumerate(rows)
    )


def _reason(row: BatchRow, member: ScoredTrajectory, of_credit: str | None, rules: BatchRules) -> str | None:
    """Why a row is untrained, the rule's own reasons before those of credit."""
    is_demonstration = member.trajectory.purpose == "demonstration"
    if isinstance(member.outcome, str) and not is_demonstration:
        return "unscored"
    if is_stale(row.lag, rules):
        return "stale"
    return of_credit


def _eligible_places(batch: StepBatch) -> tuple[Place, ...]:
    places: list[Place] = []
    for index, (row, offset) in enumerate(zip(batch.rows, batch.row_offsets.tolist(), strict=False)):
        segments = batch.members[row.member].trajectory.segments
        for segment in (segments[number] for number in row.segments):
            if is_eligible(segment, batch.eligible):
                start = offset + segment.start
                places.append(Place(index, row.member, segment, start, start + len(segment.token_ids)))
    return tuple(places)


def _stale_segments(places: Sequence[Place], step: int, rules: BatchRules) -> frozenset[tuple[int, int]]:
    """(member, segment) of those over the bound, where segments are withheld alone."""
    if rules.stale_unit == "trajectory":
        return frozenset()
    return frozenset(
        (place.member, place.segment.segment)
        for place in places
        if (version := place.segment.policy_version) is not None
        and lag_of(version, learner_version=step - 1) > rules.max_lag
    )


def _trained(acts: NDArray[np.bool_], places: Sequence[Place], rows: Sequence[BatchRow]) -> NDArray[np.bool_]:
    """(T,) acts of the owned, fresh segments of the rows that stay."""
    trained = np.zeros_like(acts)
    kept = {
        (index, segment)
        for index, row in enumerate(rows)
        if row.withheld is None
        for segment in row.owns
        if segment not in row.stale_segments
    }
    for place in places:
        if (place.row, place.segment.segment) in kept:
            trained[place.start : place.stop] = acts[place.start : place.stop]
    return trained


def _shared_mean(
    stream: NDArray[np.float64], places: Sequence[Place], withheld: Sequence[str | None]
) -> NDArray[np.float64]:
    """Copies of a shared segment take their mean over the rows that stay; withheld rows get 0."""
    copies: dict[tuple[int, int], list[Place]] = {}
    has_branches = _with_several_rows(places)
    for place in places:
        if withheld[place.row] is not None:
            stream[place.start : place.stop] = 0.0
        elif place.member in has_branches:
            copies.setdefault((place.member, place.segment.segment), []).append(place)
    for group in copies.values():
        if len(group) > 1:
            mean = np.mean([stream[place.start : place.stop] for place in group], axis=0)
            for place in group:
                stream[place.start : place.stop] = mean
    return stream


def _with_several_rows(places: Sequence[Place]) -> frozenset[int]:
    """Members whose segments may stand in more than one row."""
    first: dict[int, int] = {}
    return frozenset(place.member for place in places if first.setdefault(place.member, place.row) != place.row)


def _scatter(values: torch.Tensor, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(T,) from (N,), 0 outside the mask."""
    stream = np.zeros(len(mask), np.float64)
    stream[mask] = values.detach().to(torch.float64).numpy()
    return stream
