"""Numbers of a step and of an update, over the tokens that were trained; the names are the survey's.

`weight_sum` and `denominator` come in closed form from row lengths, so that the receipts' weights can be audited
with them. A metric without items is undefined (None), never 0.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from rollwright.algorithms.objective import Objective
from rollwright.batches.layout import StepBatch, UpdateOutcome, UpdatePlan
from rollwright.batches.updates import components_of
from rollwright.record import Flag, Metric

__all__ = ["batch_metrics", "observed_metrics", "update_metrics"]

CLIPS = {"high": Flag.CLIPPED_HIGH, "low": Flag.CLIPPED_LOW, "dual": Flag.DUAL_CLIP}
COEFFICIENTS = {"kl": "policy/kl_coef", "entropy": "entropy/coef"}
"""Names of the coefficients that the survey of metrics names; any other is `policy/coef` with its place as label."""
CUTS = {"token": Flag.TOKEN_MASK, "sequence": Flag.SEQUENCE_MASK, "support": Flag.OUTSIDE_SUPPORT}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Number:
    name: str
    value: float | None
    unit: str
    num_items: int
    labels: Mapping[str, str] = field(default_factory=lambda: {})


def update_metrics(
    plan: UpdatePlan, outcome: UpdateOutcome, objective: Objective, *, now: datetime
) -> tuple[Metric, ...]:
    """Metrics of one optimizer step.

    Args:
        plan: the update.
        outcome: what the learner did with it.
        objective: its components.
        now: their time stamp.

    Returns:
        Metrics labelled with the model, in a fixed order.
    """
    return _stamp(_update_numbers(plan, outcome, objective), plan.batch, plan.update, now)


def observed_metrics(plan: UpdatePlan, outcome: UpdateOutcome, objective: Objective) -> Mapping[str, float]:
    """What a controller is told of an update.

    Args:
        plan: the update.
        outcome: what the learner did with it.
        objective: its components.

    Returns:
        Logged name to value, of the metrics without labels; NaN where a metric is undefined.
    """
    numbers = _update_numbers(plan, outcome, objective)
    return {n.name: float("nan") if n.value is None else n.value for n in numbers if not n.labels}


def batch_metrics(batch: StepBatch, *, now: datetime) -> tuple[Metric, ...]:
    """Metrics of a step's batch, before any update: ages, what was withheld, and which groups teach nothing.

    Args:
        batch: a step's batch.
        now: their time stamp.

    Returns:
        Metrics labelled with the model, in a fixed order.
    """
    return _stamp([*_ages(batch), *_withheld(batch), *_masks(batch), *_contrast(batch)], batch, 0, now)


def _update_numbers(plan: UpdatePlan, outcome: UpdateOutcome, objective: Objective) -> list[_Number]:
    trained = _trained(plan)
    return [
        *_denominators(plan, outcome, objective),
        *_optimizer(outcome),
        *_coefficients(outcome),
        *_tokens(trained, outcome),
        *_distances(plan, outcome, trained),
        *_entropies(outcome, trained),
        *_coefficient_mass(plan, outcome, objective, trained),
    ]


def _trained(plan: UpdatePlan) -> NDArray[np.bool_]:
    chosen = np.zeros(len(plan.batch.rows), np.bool_)
    chosen[list(plan.rows)] = True
    return plan.batch.action_mask & np.repeat(chosen, np.diff(plan.batch.row_offsets))


def _denominators(plan: UpdatePlan, outcome: UpdateOutcome, objective: Objective) -> Iterator[_Number]:
    for component, _ in components_of(objective):
        labels = {"component": component}
        num_rows = len(plan.rows)
        yield _Number(name="weight_sum", value=plan.weight_sums[component], unit="1", num_items=num_rows, labels=labels)
        yield _Number(
            name="denominator", value=plan.denominators[component], unit="count", num_items=num_rows, labels=labels
        )
        losses = outcome.token_losses.get(component)
        yield _Number(
            name="policy/loss",
            value=None if losses is None else float(losses.sum()),
            unit="reward",
            num_items=num_rows,
            labels=labels,
        )


def _optimizer(outcome: UpdateOutcome) -> Iterator[_Number]:
    yield _Number(name="policy/grad_norm", value=_finite(outcome.grad_norm), unit="1", num_items=1)
    yield _Number(name="policy/lr", value=outcome.learning_rate, unit="1", num_items=1)
    yield _Number(name="policy/applied", value=float(outcome.is_applied), unit="count", num_items=1)


def _coefficients(outcome: UpdateOutcome) -> Iterator[_Number]:
    """Of each regularizer, and of each controller that stands elsewhere, as this update had them."""
    for place, value in outcome.coefficients.items():
        name = COEFFICIENTS.get(place)
        labels = {} if name else {"place": place}
        yield _Number(name=name or "policy/coef", value=value, unit="1", num_items=1, labels=labels)


def _tokens(trained: NDArray[np.bool_], outcome: UpdateOutcome) -> Iterator[_Number]:
    """Shares of the trained tokens, by what happened to them."""
    total = int(trained.sum())
    flags = outcome.flags[trained]

    def share(bits: int) -> float | None:
        return _ratio(int(((flags & np.uint16(bits)) != 0).sum()), total)

    yield _Number(name="mask/trained_tokens", value=float(total), unit="count", num_items=total)
    clipped = Flag.CLIPPED_HIGH | Flag.CLIPPED_LOW | Flag.DUAL_CLIP
    yield _Number(name="policy/clip_frac", value=share(clipped), unit="fraction", num_items=total)
    for side, bits in CLIPS.items():
        labels = {"side": side}
        yield _Number(name="policy/clip_frac", value=share(bits), unit="fraction", num_items=total, labels=labels)
    cut = int((trained & ~outcome.keep).sum())
    yield _Number(name="policy/mask_frac", value=_ratio(cut, total), unit="fraction", num_items=total)
    for reason, bits in CUTS.items():
        labels = {"reason": reason}
        yield _Number(name="policy/mask_frac", value=share(bits), unit="fraction", num_items=total, labels=labels)
    non_finite = int(((flags & np.uint16(Flag.NON_FINITE)) != 0).sum())
    yield _Number(name="mask/nonfinite_tokens", value=float(non_finite), unit="count", num_items=total)


def _distances(plan: UpdatePlan, outcome: UpdateOutcome, trained: NDArray[np.bool_]) -> Iterator[_Number]:
    """How far the streams lie apart, on trained tokens whose scores exist."""
    behavior = plan.batch.behavior
    current = outcome.proximal if outcome.current is None else outcome.current
    moved = _gap(current, behavior, trained)
    yield _statistic("policy/kl_beh", moved, lambda gap: -float(gap.mean()), "nat/token")
    yield _statistic("policy/kl_beh_k3", moved, _k3, "nat/token")
    yield _statistic("policy/kl_ref", _gap(outcome.reference, current, trained), _k3, "nat/token")
    fresh = trained & (plan.batch.policy_versions == plan.batch.step - 1)
    mismatch = _gap(outcome.proximal, behavior, fresh)
    yield _statistic("mismatch/logp_abs", mismatch, lambda gap: float(np.abs(gap).mean()), "nat", {"stat": "mean"})
    yield _statistic("mismatch/logp_abs", mismatch, lambda gap: float(np.abs(gap).max()), "nat", {"stat": "max"})
    staleness = _gap(outcome.proximal, behavior, trained)
    yield _statistic("is/ess_frac", staleness, _effective_share, "fraction")
    yield _statistic("is/max", staleness, lambda gap: float(np.exp(gap.max())), "ratio")


def _entropies(outcome: UpdateOutcome, trained: NDArray[np.bool_]) -> Iterator[_Number]:
    current = outcome.proximal if outcome.current is None else outcome.current
    for name, stream, sign in (("entropy/full", outcome.entropy, 1.0), ("entropy/sampled", current, -1.0)):
        values = None if stream is None else sign * stream[trained].astype(np.float64)
        yield _statistic(name, values, lambda nats: float(nats.mean()), "nat")


def _coefficient_mass(
    plan: UpdatePlan, outcome: UpdateOutcome, objective: Objective, trained: NDArray[np.bool_]
) -> Iterator[_Number]:
    """Each source's share of Σ |weight·correction·advantage|."""
    batch = plan.batch
    mass = np.abs(plan.token_weights[objective.component] * batch.advantages)
    if outcome.correction is not None:
        mass = mass * np.where(trained, np.abs(outcome.correction.astype(np.float64)), 1.0)
    mass = np.where(trained & outcome.keep, mass, 0.0)
    total = float(mass.sum())
    sources = np.repeat(batch.facts.source_index, np.diff(batch.row_offsets))
    names = sorted({member.trajectory.task.source for member in batch.members})
    for number, name in enumerate(names):
        here = trained & (sources == number)
        yield _Number(
            name="data/coef_mass",
            value=_ratio(float(mass[here].sum()), total),
            unit="fraction",
            num_items=int(here.sum()),
            labels={"source": name},
        )


def _ages(batch: StepBatch) -> Iterator[_Number]:
    lags = batch.step - 1 - batch.policy_versions[batch.action_mask & (batch.policy_versions >= 0)].astype(np.float64)
    yield _statistic("stale/lag", lags, lambda ages: float(ages.mean()), "steps", {"stat": "mean"})
    yield _statistic("stale/lag", lags, lambda ages: float(ages.max()), "steps", {"stat": "max"})
    versions = np.unique(lags)
    yield _Number(name="stale/num_versions", value=float(len(versions)), unit="count", num_items=len(lags))


def _withheld(batch: StepBatch) -> Iterator[_Number]:
    """Rows by why they left numerator and denominator, and the share of eligible tokens that age alone withheld."""
    counts = Counter(row.withheld for row in batch.rows if row.withheld is not None)
    for reason, count in sorted(counts.items()):
        labels = {"reason": reason}
        yield _Number(
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
        yield _Number(name="stale/dropped", value=share, unit="fraction", num_items=total, labels={"source": source})


def _masks(batch: StepBatch) -> Iterator[_Number]:
    acts = int(batch.acts.sum())
    yield _Number(name="mask/eligible_tokens", value=float(acts), unit="count", num_items=len(batch.token_ids))
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(batch.acts)])
    empty = int((np.diff(running[batch.row_offsets]) == 0).sum())
    yield _Number(name="mask/empty_rows", value=float(empty), unit="count", num_items=len(batch.rows))
    unpredicted = batch.action_mask[batch.row_offsets[:-1][np.diff(batch.row_offsets) > 0]].sum()
    foreign = int((batch.action_mask & ~batch.acts).sum() + unpredicted)
    yield _Number(name="mask/observation_grad", value=float(foreign), unit="count", num_items=len(batch.token_ids))


def _contrast(batch: StepBatch) -> Iterator[_Number]:
    """Groups of two or more scored episodes whose rewards are all one level."""
    groups: dict[int, list[float]] = {}
    for member in batch.members:
        if not isinstance(member.outcome, str):
            groups.setdefault(member.trajectory.group_id, []).append(float(member.outcome))
    compared = [rewards for rewards in groups.values() if len(rewards) > 1]
    level = [rewards for rewards in compared if max(rewards) - min(rewards) <= 1e-12 * max(1.0, abs(max(rewards)))]
    total = len(compared)
    yield _Number(name="reward/zero_var_frac", value=_ratio(len(level), total), unit="fraction", num_items=total)


def _gap(
    left: NDArray[np.float32] | None, right: NDArray[np.float32] | None, mask: NDArray[np.bool_]
) -> NDArray[np.float64] | None:
    """The difference left - right in float64, where both are finite under the mask."""
    if left is None or right is None:
        return None
    both = mask & np.isfinite(left) & np.isfinite(right)
    return left[both].astype(np.float64) - right[both].astype(np.float64)


def _statistic(
    name: str,
    values: NDArray[np.float64] | None,
    formula: Callable[[NDArray[np.float64]], float],
    unit: str,
    labels: Mapping[str, str] | None = None,
) -> _Number:
    """A formula over the values; undefined where there are none."""
    count = 0 if values is None else len(values)
    value = None if values is None or not count else _finite(formula(values))
    return _Number(name=name, value=value, unit=unit, num_items=count, labels=labels or {})


def _k3(gap: NDArray[np.float64]) -> float:
    """Mean of e^x - x - 1 (M81)."""
    return float((np.expm1(gap) - gap).mean())


def _effective_share(gap: NDArray[np.float64]) -> float:
    """(Σw)² / (n·Σw²) of w = e^x (M46)."""
    weights = np.exp(gap)
    return float(weights.sum() ** 2 / (len(weights) * np.square(weights).sum()))


def _ratio(part: float, total: float) -> float | None:
    return part / total if total else None


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _stamp(numbers: list[_Number], batch: StepBatch, update: int, now: datetime) -> tuple[Metric, ...]:
    return tuple(
        Metric(
            step=batch.step,
            update=update,
            name=n.name,
            value=n.value,
            unit=n.unit,
            labels={"model": batch.model, **n.labels},
            num_items=n.num_items,
            recorded_at=now,
        )
        for n in numbers
    )
