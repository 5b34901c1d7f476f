"""Level 5 in the form of every level's report."""

import time
from collections.abc import Callable, Iterator, Sequence

from rollwright.recipes.ladder.commands import Commands
from rollwright.recipes.ladder.lag.arms import ClimbOrder
from rollwright.recipes.ladder.lag.climb import LadderReport, climb, report_of
from rollwright.recipes.ladder.lag.comparison import Comparison
from rollwright.recipes.ladder.lag.figures import ArmFigures, CurvePoint, Score
from rollwright.recipes.ladder.lag.level import load_level
from rollwright.recipes.ladder.plan import Limit
from rollwright.recipes.ladder.report import LadderVerdict, LevelReport, RunNote, Table
from rollwright.recipes.ladder.runs import LadderOrder

__all__ = ["LAG_LEVEL", "climb_lags", "report_of_lags"]

LAG_LEVEL = 5
_SCALE = (
    "The synchronous run and then one largest lag after the other, all else equal; one after the other on the machine."
)


def climb_lags(order: LadderOrder, commands: Commands, heard: Callable[[str], None]) -> LevelReport:
    """Climb level 5.

    Args:
        order: what was asked for.
        commands: that run now.
        heard: told in a sentence what is done.

    Raises:
        RecipeError: for a ladder that cannot be run, or a folder that holds other runs.
        LadderError: where an arm did not come to its end.
        RunStoppedError: where someone stopped it.
    """
    began, level = time.monotonic(), load_level()
    asked = ClimbOrder(
        level=level,
        recipe=order.recipe,
        values=order.lags,
        settings=order.settings,
        seed=order.seed,
        updates=order.updates,
        tasks=order.tasks,
        folder=order.folder,
    )
    arms = tuple(climb(asked, commands, heard))
    return report_of_lags(report_of(level, arms), arms, time.monotonic() - began)


def report_of_lags(found: LadderReport, arms: Sequence[ArmFigures], seconds: float) -> LevelReport:
    """The report of level 5.

    Args:
        found: comparisons and verdicts.
        arms: the baseline first.
        seconds: that the climb took.
    """
    return LevelReport(
        level=found.level.number,
        title=found.level.title,
        scale=_SCALE,
        verdicts=tuple(_verdicts(found)),
        tables=(_speed(found, arms), _staleness(arms), _ratios(found, arms)),
        runs=tuple(_note(arm) for arm in arms),
        notes=(*found.notes, f"no gate failed up to {found.level.axis.name} {found.highest}."),
        seconds=seconds,
    )


def _verdicts(found: LadderReport) -> Iterator[LadderVerdict]:
    for one in found.verdicts:
        gate = one.gate
        limit = Limit(measure=gate.measure, bound=gate.bound, limit=gate.limit, label=gate.label, source=gate.source)
        yield LadderVerdict(run=one.arm, limit=limit, verdict=one.verdict)


def _note(arm: ArmFigures) -> RunNote:
    folder = arm.run.rpartition("/")[2]
    return RunNote(
        name=arm.name,
        folder=folder,
        code_commit=arm.commit,
        protocol_sha256=arm.protocol,
        steps=arm.updates,
        seconds=arm.steps_s,
    )


def _speed(found: LadderReport, arms: Sequence[ArmFigures]) -> Table:
    reached: dict[str, CurvePoint | None] = {c.arm.name: c.reached for c in found.comparisons}
    reached[arms[0].name] = found.comparisons[0].baseline_reached
    differences = {c.arm.name: c.difference for c in found.comparisons}
    rows = tuple(
        (
            arm.name,
            f"{arm.steps_s:.1f}",
            f"{arm.tokens_per_s:.0f}",
            *_reached(reached[arm.name]),
            _score(arm.final),
            _score(differences.get(arm.name)),
        )
        for arm in arms
    )
    header = (
        "arm",
        "seconds",
        "tokens/s",
        "updates to it",
        "episodes",
        "clock",
        "success at the end",
        "paired difference",
    )
    title = f"Speed and quality; it is success {found.comparisons[0].target:.3f}, the baseline's"
    return Table(title=title, header=header, rows=rows)


def _staleness(arms: Sequence[ArmFigures]) -> Table:
    rows: list[tuple[str, ...]] = []
    for arm in arms:
        stale = arm.staleness
        tails = [_number(stale.weights[q].worst) for q in ("0.5", "0.99")]
        rest = (stale.weight_max, stale.weights_held, stale.ess.worst, stale.kl_k3, stale.mismatch, stale.probe)
        lag = f"{_number(stale.lag_mean)} / {_number(stale.lag_max)}"
        rows.append((arm.name, lag, *tails, *map(_number, rest)))
    title = "Staleness: mean and largest lag; weights, ESS and mismatch of the worst update; KL k3, nats a token"
    header = ("arm", "lag", "weights .5", ".99", "max", "held", "ESS", "KL", "mismatch", "probe")
    return Table(title=title, header=header, rows=tuple(rows))


def _ratios(found: LadderReport, arms: Sequence[ArmFigures]) -> Table:
    header = ("arm", "seconds to it", "interval", "episodes to it", "episodes/s", "seconds of all updates")
    title = f"Times those of {arms[0].name}; seconds to it are episodes to it over episodes a second"
    return Table(title=title, header=header, rows=tuple(_ratio(one) for one in found.comparisons))


def _ratio(comparison: Comparison) -> tuple[str, ...]:
    bounds = comparison.clock_interval
    numbers = (comparison.samples_ratio, comparison.speed_ratio, comparison.whole_ratio)
    interval = "" if bounds is None else f"[{bounds.low:.2f}, {bounds.high:.2f}]"
    return (comparison.arm.name, _number(comparison.clock_ratio), interval, *map(_number, numbers))


def _reached(point: CurvePoint | None) -> tuple[str, str, str]:
    if point is None:
        return ("never", "", "")
    return (str(point.updates), str(point.episodes), f"{point.clock_s:.0f} s")


def _score(score: Score | None) -> str:
    return "" if score is None else f"{score.value:.3f} [{score.low:.3f}, {score.high:.3f}]"


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.3g}"
