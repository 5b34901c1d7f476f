"""What the gates of level 5 look at, judged by the one rule of all gates.

Quality and clock are judged beside a synchronous run that learned: the interval of its last held-out success lies above
that of its first. Beside any other there is not enough evidence of either, whatever the arm did.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rollwright.evaluation.gates import judge as judge_by_limit
from rollwright.recipes.ladder.lag.comparison import Comparison
from rollwright.recipes.ladder.lag.figures import CurvePoint, Score, Staleness
from rollwright.recipes.ladder.lag.level import Gate, Measure
from rollwright.record.gates import Bound, GateVerdict, Measured, Outcome
from rollwright.statistics import Interval

__all__ = ["Verdict", "highest_unfailed", "judge", "judge_all"]

_LEVEL = 0.95
"""Of every interval that a comparison has."""
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
    verdict: GateVerdict

    @property
    def outcome(self) -> Outcome:
        """Passed, failed or not enough evidence."""
        return self.verdict.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a gate looks at; `missing` says why there is no number."""

    value: float | None
    interval: Score | Interval | None = None
    missing: str = ""

    def measured(self, source: str) -> Measured:
        """For the judge: what is never reached has an interval all the same, and lies at infinity."""
        bounds = self.interval
        said = source if self.value is not None else self.missing
        value = math.inf if self.value is None and bounds is not None else self.value
        if bounds is None:
            return Measured(value=value, num_items=0, source=said)
        num_items = bounds.num_tasks if isinstance(bounds, Score) else 0
        return Measured(value=value, low=bounds.low, high=bounds.high, level=_LEVEL, num_items=num_items, source=said)


def judge_all(gates: Sequence[Gate], comparisons: Sequence[Comparison]) -> tuple[Verdict, ...]:
    """Every gate for every arm, arm by arm."""
    return tuple(judge(gate, comparison) for comparison in comparisons for gate in gates)


def judge(gate: Gate, comparison: Comparison) -> Verdict:
    """One gate for one arm."""
    found, arm = _found(gate, comparison), comparison.arm
    bound = Bound(side=gate.bound, limit=gate.limit)
    measured = found.measured(f"{gate.measure} of {arm.name} beside {comparison.baseline.name}: {gate.source}")
    return Verdict(arm=arm.name, value=arm.value, gate=gate, verdict=judge_by_limit(gate.measure, bound, measured))


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
