"""An arm beside the baseline: the paired difference at the end, and how each came to the baseline's success.

Seconds to a success are episodes to it over episodes a second, so a run that samples faster from older weights has to
be judged by both at once: `clock_ratio` is `samples_ratio` over `speed_ratio`.

Outcomes that are all alike have no variance, which is no evidence of certainty: Wilson's interval over the tasks says
how many of them might have come out otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.recipes.ladder.errors import LadderError
from rollwright.recipes.ladder.intervals import difference_interval
from rollwright.recipes.ladder.lag.figures import ArmFigures, CurvePoint, Score
from rollwright.statistics import Interval, wilson_interval
from rollwright.statistics.resampling import percentile_interval

__all__ = ["Comparison", "compare"]

_RESAMPLES = 2000
_ALIKE = 1e-9
"""Scores of tasks that lie no further apart are the same but for rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One arm against the baseline."""

    arm: ArmFigures
    baseline: ArmFigures
    difference: Score
    """Final held-out success minus the baseline's, paired by task."""
    target: float
    """The baseline's success at the last point of its curve."""
    reached: CurvePoint | None
    """Where the arm's curve came to the target first."""
    baseline_reached: CurvePoint
    """Where the baseline's did."""

    clock_interval: Interval | None
    """Of `clock_ratio`, over the tasks of the curves; infinite where the target is never reached."""

    @property
    def has_baseline_learned(self) -> bool:
        """True where the interval of the baseline's last success lies above that of its first.

        Where it does not, its success is no target that an arm could reach sooner or miss.
        """
        first, last = self.baseline.curve[0], self.baseline.curve[-1]
        return first.high is not None and last.low is not None and last.low > first.high

    @property
    def clock_ratio(self) -> float | None:
        """Seconds to the target over the baseline's, evaluations counted; below 1 is sooner."""
        return None if self.reached is None else _ratio(self.reached.clock_s, self.baseline_reached.clock_s)

    @property
    def samples_ratio(self) -> float | None:
        """Episodes to the target over the baseline's."""
        return None if self.reached is None else _ratio(self.reached.episodes, self.baseline_reached.episodes)

    @property
    def speed_ratio(self) -> float | None:
        """Episodes a second up to the target, over the baseline's."""
        clock, samples = self.clock_ratio, self.samples_ratio
        return None if not clock or samples is None else samples / clock

    @property
    def whole_ratio(self) -> float:
        """Seconds of the same number of updates over the baseline's, evaluations counted."""
        return self.arm.clock_s / self.baseline.clock_s

    @property
    def steps_ratio(self) -> float:
        """The same without evaluations."""
        return self.arm.steps_s / self.baseline.steps_s


def compare(arms: Sequence[ArmFigures]) -> tuple[Comparison, ...]:
    """Each arm behind the first against the first.

    Raises:
        LadderError: where two arms were not measured on the same tasks.
    """
    baseline = arms[0]
    target = baseline.curve[-1].success
    return tuple(
        Comparison(
            arm=arm,
            baseline=baseline,
            difference=_difference(arm, baseline),
            target=target,
            reached=_reached(arm, target),
            baseline_reached=_reached(baseline, target) or baseline.curve[-1],
            clock_interval=_clock_interval(arm, baseline),
        )
        for arm in arms[1:]
    )


def _reached(arm: ArmFigures, target: float) -> CurvePoint | None:
    return next((point for point in arm.curve if point.updates and point.success >= target), None)


def _clock_interval(arm: ArmFigures, baseline: ArmFigures) -> Interval | None:
    """Bootstrap over the tasks of both curves at once: each resample has a target, and both their way to it.

    A point whose tasks all scored alike is the same in every resample: its success is drawn from Wilson's interval.
    """
    scored = [set(by_task) for one in (arm, baseline) for by_task in one.curve_by_task.values()]
    tasks = sorted(scored[0].intersection(*scored[1:])) if scored else []
    if len(tasks) < 2:
        return None
    generator = np.random.default_rng(0)
    drawn = generator.multinomial(len(tasks), np.full(len(tasks), 1.0 / len(tasks)), size=_RESAMPLES)
    curves = [_resampled(_successes(one, tasks), drawn, generator) for one in (arm, baseline)]
    target = curves[1][:, -1:]
    seconds = [_seconds_to(one, curve >= target - 1e-9) for one, curve in zip((arm, baseline), curves, strict=True)]
    return percentile_interval(seconds[0] / seconds[1], level=0.95, method="task_bootstrap")


def _successes(arm: ArmFigures, tasks: Sequence[str]) -> NDArray[np.float64]:
    """(points, tasks) of the curve behind its start."""
    rows = [[arm.curve_by_task[point.updates][task] for task in tasks] for point in arm.curve if point.updates]
    return np.array(rows, dtype=np.float64)


def _resampled(
    successes: NDArray[np.float64], drawn: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """(resamples, points) number of tasks solved."""
    curve = drawn @ successes.T
    num_tasks = successes.shape[1]
    for place in np.flatnonzero(np.ptp(successes, axis=1) <= _ALIKE):
        bounds = wilson_interval(round(float(successes[place].sum())), num_tasks)
        curve[:, place] = num_tasks * generator.uniform(bounds.low, bounds.high, size=len(drawn))
    return curve


def _seconds_to(arm: ArmFigures, is_there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(resamples,) seconds to the first point that is there; infinite where none is."""
    clocks = np.array([point.clock_s for point in arm.curve if point.updates], dtype=np.float64)
    return np.where(is_there.any(axis=1), clocks[is_there.argmax(axis=1)], np.inf)


def _difference(arm: ArmFigures, baseline: ArmFigures) -> Score:
    if arm.by_task.keys() != baseline.by_task.keys():
        raise LadderError(
            f"{arm.run} and {baseline.run} were scored on different tasks ({len(arm.by_task)} and "
            f"{len(baseline.by_task)}), so nothing can be paired; find out which verdicts are missing."
        )
    deltas = np.array([arm.by_task[task] - baseline.by_task[task] for task in sorted(arm.by_task)], dtype=np.float64)
    bounds = difference_interval(deltas)
    if bounds is None:
        raise LadderError("a paired difference needs two tasks or more; give --tasks 2 or more.")
    return Score(value=float(deltas.mean()), low=bounds.low, high=bounds.high, num_tasks=len(deltas))


def _ratio(above: float, below: float) -> float | None:
    return above / below if below else None
