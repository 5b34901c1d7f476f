"""Whether a limit holds: passed, failed, or not enough evidence, with the number that says so.

A number with an interval passes where both its ends lie within the limit, and fails where neither does. A number that
was counted over everything, such as the largest of all weights, has no interval: the limit decides.

Quality and clock are judged beside a synchronous run that learned: the interval of its last held-out success lies above
that of its first. Beside any other there is not enough evidence of either, whatever the arm did.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.recipes.ladder.comparison import Comparison
from rollwright.recipes.ladder.figures import CurvePoint, Score, Staleness
from rollwright.recipes.ladder.level import Gate, Measure
from rollwright.statistics import Interval

__all__ = ["Outcome", "Verdict", "highest_unfailed", "judge", "judge_all"]

Outcome = Literal["passed", "failed", "not enough evidence"]

_STALENESS: Mapping[Measure, tuple[Callable[[Staleness], float | None], str]] = {
    "kl": (lambda stale: stale.kl_k3, "no update had behavior and current log-probabilities"),
    "ess": (lambda stale: stale.ess.worst, "no update had importance weights"),
    "weights": (lambda stale: stale.weights_held, "the objective has no correction with a cap"),
    "mismatch": (lambda stale: stale.mismatch, "no token was sampled by the weights that stood at its update"),
    "probe": (lambda stale: stale.probe, "no probe was made; runtime.probe is off"),
    "disagreement": (lambda stale: stale.disagreement, "the environment does not say how its episodes ended"),
}
"""What the other measures read, and why it may not be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One gate for one arm."""

    arm: str
    value: int
    """Of the axis."""
    gate: Gate
    outcome: Outcome
    measured: float | None
    low: float | None
    high: float | None
    because: str
    """The number with its interval, or why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a gate looks at; `missing` says why there is no number."""

    value: float | None
    interval: Score | Interval | None = None
    missing: str = ""


def judge_all(gates: Sequence[Gate], comparisons: Sequence[Comparison]) -> tuple[Verdict, ...]:
    """Every gate for every arm, arm by arm."""
    return tuple(judge(gate, comparison) for comparison in comparisons for gate in gates)


def judge(gate: Gate, comparison: Comparison) -> Verdict:
    """One gate for one arm."""
    found = _found(gate, comparison)
    interval = found.interval
    return Verdict(
        arm=comparison.arm.name,
        value=comparison.arm.value,
        gate=gate,
        outcome=_outcome(gate, found),
        measured=found.value,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        because=_because(found),
    )


def highest_unfailed(verdicts: Sequence[Verdict], baseline: int) -> int:
    """The largest value of the axis up to which, one value after the other, no gate failed; the baseline's if none."""
    highest = baseline
    for value in sorted({verdict.value for verdict in verdicts}):
        if any(verdict.outcome == "failed" for verdict in verdicts if verdict.value == value):
            break
        highest = value
    return highest


def _found(gate: Gate, comparison: Comparison) -> _Found:
    match gate.measure:
        case "quality" | "clock" if not comparison.has_baseline_learned:
            return _Found(value=None, missing=_unlearned(comparison.baseline.curve))
        case "quality":
            return _Found(value=comparison.difference.value, interval=comparison.difference)
        case "clock":
            never = f"{comparison.target:.3f} never reached in {comparison.arm.updates} updates"
            return _Found(value=comparison.clock_ratio, interval=comparison.clock_interval, missing=never)
        case "whole":
            return _Found(value=comparison.whole_ratio)
        case _:
            read, missing = _STALENESS[gate.measure]
            return _Found(value=read(comparison.arm.staleness), missing=missing)


def _unlearned(curve: Sequence[CurvePoint]) -> str:
    first, last = (f"{_success(point)} after {point.updates}" for point in (curve[0], curve[-1]))
    return f"the synchronous run learned nothing that its intervals show: success {first} and {last} updates"


def _success(point: CurvePoint) -> str:
    if point.low is None or point.high is None:
        return f"{point.success:.3f} (no interval)"
    return f"{point.success:.3f} [{point.low:.3f}, {point.high:.3f}]"


def _outcome(gate: Gate, found: _Found) -> Outcome:
    if found.interval is not None:
        sides = [_is_within(gate, bound) for bound in (found.interval.low, found.interval.high)]
        if all(sides):
            return "passed"
        return "not enough evidence" if any(sides) else "failed"
    if found.value is None:
        return "not enough evidence"
    return "passed" if _is_within(gate, found.value) else "failed"


def _is_within(gate: Gate, value: float) -> bool:
    return value >= gate.limit if gate.bound == "at_least" else value <= gate.limit


def _because(found: _Found) -> str:
    number = found.missing if found.value is None else f"{found.value:.4g}"
    return number if found.interval is None else f"{number} [{found.interval.low:.3f}, {found.interval.high:.3f}]"
