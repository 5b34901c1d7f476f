"""Numbers of a step and of an update, over the tokens that were trained, under the names of the list of metrics.

The formulas of tokens and groups are those of `algorithms.diagnostics`; here stands what only a batch knows.
`weight_sum` and `denominator` come in closed form from row lengths, so that the receipts' weights can be audited with
them. A metric without items is undefined (None), never 0.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from rollwright.algorithms.diagnostics.token_measures import TokenMeasures
from rollwright.algorithms.diagnostics.updates import (
    Diagnostic,
    explained_variance,
    group_diagnostics,
    lag_diagnostics,
    stable_order,
    stratified_diagnostics,
    token_diagnostics,
)
from rollwright.algorithms.objective import CreditInputs, Objective
from rollwright.batches.layout import StepBatch, UpdateOutcome, UpdatePlan
from rollwright.batches.measures import measures_of
from rollwright.batches.rewards import num_moved_rewards
from rollwright.batches.strata import strata_of
from rollwright.batches.updates import components_of
from rollwright.record import Metric

__all__ = ["batch_metrics", "observed_metrics", "update_metrics"]

COEFFICIENTS: Final = {"kl": "policy/kl_coef", "entropy": "entropy/coef"}
"""Names of the coefficients that the survey of metrics names; any other is `policy/coef` with its place as label."""


def update_metrics(
    plan: UpdatePlan,
    outcome: UpdateOutcome,
    objective: Objective,
    *,
    now: datetime,
    success_at: float = 1.0,
    reference: NDArray[np.float32] | None = None,
) -> tuple[Metric, ...]:
    """Metrics of one optimizer step, of all its tokens and of their strata.

    Args:
        plan: the update.
        outcome: what the learner did with it.
        objective: its components.
        now: their time stamp.
        success_at: reward from which an episode is right, verifier units.
        reference: (T,) scores of a frozen model that the objective does not read.

    Returns:
        Metrics labelled with the model, in a fixed order.
    """
    compared = outcome if reference is None else replace(outcome, reference=reference)
    tokens = measures_of(plan, compared, objective)
    numbers = [
        *_update_numbers(plan, outcome, objective, tokens),
        *stratified_diagnostics(tokens, strata_of(plan, success_at=success_at)),
        *_coefficient_mass(plan, outcome, objective),
    ]
    return _stamp(numbers, plan.batch, plan.update, now)


def observed_metrics(plan: UpdatePlan, outcome: UpdateOutcome, objective: Objective) -> Mapping[str, float]:
    """What a controller is told of an update.

    Args:
        plan: the update.
        outcome: what the learner did with it.
        objective: its components.

    Returns:
        Logged name to value, of the metrics without labels; NaN where a metric is undefined.
    """
    numbers = _update_numbers(plan, outcome, objective, measures_of(plan, outcome, objective))
    nan = float("nan")
    return {n.name: n.value if n.value is not None and np.isfinite(n.value) else nan for n in numbers if not n.labels}


def batch_metrics(batch: StepBatch, *, success_at: float, now: datetime) -> tuple[Metric, ...]:
    """Metrics of a step's batch, before any update: ages, what was withheld, and which groups teach nothing.

    Args:
        batch: a step's batch.
        success_at: reward from which an episode is right, verifier units.
        now: their time stamp.

    Returns:
        Metrics labelled with the model, in a fixed order.
    """
    versions, mask = torch.tensor(batch.policy_versions), torch.tensor(batch.action_mask)
    numbers = [
        *lag_diagnostics(versions, mask, learner_version=batch.step - 1),
        *_withheld(batch),
        *_masks(batch),
        *_temperatures(batch),
        *group_diagnostics(_episodes(batch), success_at=success_at),
        *_values(batch),
    ]
    return _stamp(numbers, batch, 0, now)


def _update_numbers(
    plan: UpdatePlan, outcome: UpdateOutcome, objective: Objective, tokens: TokenMeasures
) -> list[Diagnostic]:
    return [
        *_denominators(plan, outcome, objective),
        *_optimizer(outcome),
        *_coefficients(outcome),
        *token_diagnostics(tokens),
    ]


def _denominators(plan: UpdatePlan, outcome: UpdateOutcome, objective: Objective) -> Iterator[Diagnostic]:
    for component, _ in components_of(objective):
        labels = {"component": component}
        num_rows = len(plan.rows)
        yield Diagnostic(
            name="weight_sum", value=plan.weight_sums[component], unit="1", num_items=num_rows, labels=labels
        )
        yield Diagnostic(
            name="denominator", value=plan.denominators[component], unit="count", num_items=num_rows, labels=labels
        )
        losses = outcome.token_losses.get(component)
        yield Diagnostic(
            name="policy/loss",
            value=None if losses is None else float(losses.sum()),
            unit="reward",
            num_items=num_rows,
            labels=labels,
        )


def _optimizer(outcome: UpdateOutcome) -> Iterator[Diagnostic]:
    yield Diagnostic(name="policy/grad_norm", value=outcome.grad_norm, unit="1", num_items=1)
    yield Diagnostic(name="policy/update_norm", value=outcome.update_norm, unit="1", num_items=1)
    yield Diagnostic(name="policy/lr", value=outcome.learning_rate, unit="1", num_items=1)
    yield Diagnostic(name="policy/applied", value=float(outcome.is_applied), unit="count", num_items=1)


def _coefficients(outcome: UpdateOutcome) -> Iterator[Diagnostic]:
    """Of each regularizer, and of each controller that stands elsewhere, as this update had them."""
    for place, value in outcome.coefficients.items():
        name = COEFFICIENTS.get(place)
        labels = {} if name else {"place": place}
        yield Diagnostic(name=name or "policy/coef", value=value, unit="1", num_items=1, labels=labels)


def _coefficient_mass(plan: UpdatePlan, outcome: UpdateOutcome, objective: Objective) -> Iterator[Diagnostic]:
    """Each source's share of Σ |weight·correction·advantage|."""
    batch = plan.batch
    chosen = np.zeros(len(batch.rows), np.bool_)
    chosen[list(plan.rows)] = True
    trained = batch.action_mask & np.repeat(chosen, np.diff(batch.row_offsets))
    mass = np.abs(plan.token_weights[objective.component] * batch.advantages)
    if outcome.correction is not None:
        mass = mass * np.where(trained, np.abs(outcome.correction.astype(np.float64)), 1.0)
    mass = np.where(trained & outcome.keep, mass, 0.0)
    total = float(mass.sum())
    names = sorted({member.trajectory.task.source for member in batch.members})
    sources = np.repeat(batch.facts.source_index, np.diff(batch.row_offsets))[trained]
    by_source = mass[trained][stable_order(sources, len(names))]
    ends = np.cumsum(np.bincount(sources, minlength=len(names)))
    for name, here in zip(names, np.split(by_source, ends[:-1]), strict=True):
        yield Diagnostic(
            name="data/coef_mass",
            value=_ratio(float(here.sum()), total),
            unit="fraction",
            num_items=len(here),
            labels={"source": name},
        )


def _withheld(batch: StepBatch) -> Iterator[Diagnostic]:
    """Rows by why they left numerator and denominator, and the share of eligible tokens that age alone withheld."""
    counts = Counter(row.withheld for row in batch.rows if row.withheld is not None)
    for reason, count in sorted(counts.items()):
        labels = {"reason": reason}
        yield Diagnostic(
            name="data/withheld_rows", value=float(count), unit="count", num_items=len(batch.rows), labels=labels
        )
    tokens: dict[str, list[int]] = {}
    for row in batch.rows:
        member = batch.members[row.member].trajectory
        of_source = tokens.setdefault(member.task.source, [0, 0])
        for number in row.owns:
            is_stale = row.withheld == "stale" or number in row.stale_segments
            of_source[0] += member.segments[number].num_tokens if is_stale else 0
            of_source[1] += member.segments[number].num_tokens
    for source, (stale, total) in sorted(tokens.items()):
        share = _ratio(stale, total)
        yield Diagnostic(name="stale/dropped", value=share, unit="fraction", num_items=total, labels={"source": source})


def _masks(batch: StepBatch) -> Iterator[Diagnostic]:
    acts = int(batch.acts.sum())
    yield Diagnostic(name="mask/eligible_tokens", value=float(acts), unit="count", num_items=len(batch.token_ids))
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(batch.acts)])
    empty = int((np.diff(running[batch.row_offsets]) == 0).sum())
    yield Diagnostic(name="mask/empty_rows", value=float(empty), unit="count", num_items=len(batch.rows))
    unpredicted = batch.action_mask[batch.row_offsets[:-1][np.diff(batch.row_offsets) > 0]].sum()
    moved = num_moved_rewards(batch)
    yield Diagnostic(name="mask/rewards_moved", value=float(moved), unit="count", num_items=len(batch.rows))
    foreign = int((batch.action_mask & ~batch.acts).sum() + unpredicted)
    yield Diagnostic(name="mask/observation_grad", value=float(foreign), unit="count", num_items=len(batch.token_ids))


def _temperatures(batch: StepBatch) -> Iterator[Diagnostic]:
    """Rows by the temperature that their trained tokens were drawn at; those without one are of another engine."""
    known = batch.action_mask & np.isfinite(batch.temperature)
    before, trained = (np.append(0, np.cumsum(mask))[batch.row_offsets] for mask in (known, batch.action_mask))
    missing = int((np.diff(trained) > np.diff(before)).sum())
    first = before[:-1][np.diff(before) > 0]
    drawn, rows = np.unique(batch.temperature[known][first], return_counts=True)
    counts: Counter[str] = Counter()
    for temperature, count in zip(drawn, rows.tolist(), strict=True):
        counts[f"{temperature:g}"] += count
    for bucket, count in sorted(counts.items()):
        yield Diagnostic(
            name="ptgs/temperature",
            value=float(count),
            unit="count",
            num_items=len(batch.rows),
            labels={"bucket": bucket},
        )
    yield Diagnostic(name="ptgs/fallback_rows", value=float(missing), unit="count", num_items=len(batch.rows))


def _episodes(batch: StepBatch) -> CreditInputs:
    """One row an episode with its reward as it was given, and no tokens: what group metrics look at."""
    members = batch.members
    rewards = [float("nan") if isinstance(m.outcome, str) else float(m.outcome) for m in members]
    nothing = torch.zeros(0, dtype=torch.float64)
    return CreditInputs(
        rewards=torch.tensor(rewards, dtype=torch.float64),
        group_index=torch.tensor([m.trajectory.group_id for m in members], dtype=torch.int64),
        source_index=torch.zeros(len(members), dtype=torch.int64),
        episode_index=torch.arange(len(members)),
        row_offsets=torch.zeros(len(members) + 1, dtype=torch.int64),
        is_truncated=torch.zeros(len(members), dtype=torch.bool),
        step_rewards=nothing,
        turn_index=nothing.to(torch.int64),
        state_index=nothing.to(torch.int64),
        logprobs={},
        values={},
    )


def _values(batch: StepBatch) -> Iterator[Diagnostic]:
    """How well the critic predicted, where there is one."""
    predicted, targets = batch.scores.get("predicted"), batch.value_targets
    if predicted is None or targets is None:
        return
    mask = batch.action_mask & np.isfinite(predicted) & np.isfinite(targets)
    value = explained_variance(*(torch.tensor(values) for values in (predicted, targets, mask)))
    yield Diagnostic(name="value/explained_var", value=value, unit="1", num_items=int(mask.sum()))


def _ratio(part: float, total: float) -> float | None:
    return part / total if total else None


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _stamp(numbers: Iterable[Diagnostic], batch: StepBatch, update: int, now: datetime) -> tuple[Metric, ...]:
    return tuple(
        Metric(
            step=batch.step,
            update=update,
            name=n.name,
            value=None if n.value is None else _finite(n.value),
            unit=n.unit,
            labels={"model": batch.model, **n.labels},
            num_items=n.num_items,
            recorded_at=now,
        )
        for n in numbers
    )
