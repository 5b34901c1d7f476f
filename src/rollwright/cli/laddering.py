"""`ladder`: a level of claims about training, run and judged."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollwright.cli.failures import FAILED
from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, Settings, import_from_here, open_screen
from rollwright.cli.screen import JsonScreen, PersonScreen, Screen, interval

if TYPE_CHECKING:
    from rollwright.recipes.ladder.climb import LadderReport
    from rollwright.recipes.ladder.comparison import Comparison
    from rollwright.recipes.ladder.figures import ArmFigures, CurvePoint
    from rollwright.recipes.ladder.level import Gate

__all__ = ["ladder"]

_BY_TASK = ("by_task", "curve_by_task")
"""Figures that are as many as tasks: the run holds them."""


def ladder(  # noqa: PLR0913 - each parameter is an option that a person may give
    level: Annotated[int, typer.Argument(help="Of the ladder; 5 is bounded staleness.", show_default=False)],
    *,
    recipe: Annotated[
        str | None, typer.Option(help="A recipe's name or file; by default the level's.", show_default=False)
    ] = None,
    lags: Annotated[
        str | None,
        typer.Option(metavar="0,N,…", help="The arms, 0 first; by default the level's.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of every arm.")] = 0,
    updates: Annotated[
        int | None, typer.Option(min=1, help="Steps of RL; by default the recipe's.", show_default=False)
    ] = None,
    tasks: Annotated[
        int | None,
        typer.Option(min=2, help="Held-out tasks at the end; by default the level's.", show_default=False),
    ] = None,
    settings: Settings = None,
    runs: Annotated[Path, typer.Option(help="Where the runs are kept, one folder an arm.")] = Path("runs/ladder"),
    json: Json = False,
) -> None:
    """Climb a level of the ladder: arms that differ in one value, run one after another, then judged by gates.

    Level 5 trains the synchronous run, then the same with a largest lag of 1, 2, 4 and 8, and says of each how soon it
    came to the synchronous run's held-out success, what that took in episodes, and how old and how far off its tokens
    were. The limits were fixed beforehand; each gate has passed, failed, or not enough evidence.

    What `--runs` holds already is read and not run again; an arm that was cut short is gone on with. The exit code is 1
    where a gate failed.

    ```
    rollwright ladder 5
    rollwright ladder 5 --lags 0,2 --runs runs/ladder --json
    rollwright ladder 5 --recipe arithmetic-tool --seed 1 --runs runs/arithmetic-ladder
    ```
    """
    from rollwright.recipes.ladder.arms import ClimbOrder
    from rollwright.recipes.ladder.climb import climb, report_of
    from rollwright.recipes.ladder.level import load_level

    import_from_here()
    of_level = load_level(level)
    screen = open_screen(json)
    order = ClimbOrder(
        level=of_level,
        recipe=recipe,
        values=_values(lags),
        settings=tuple(settings or ()),
        seed=seed,
        updates=updates,
        tasks=tasks,
        folder=runs,
    )
    arms: list[ArmFigures] = []
    for arm in climb(order, screen.warned):
        arms.append(arm)
        _show_arm(arm, screen)
    report = report_of(of_level, arms)
    _show_report(report, arms, screen)
    if report.has_failed:
        raise typer.Exit(FAILED)


def _values(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise typer.BadParameter(
            f"--lags takes whole numbers with commas between them, such as 0,1,2; {text!r} is not."
        )
    return tuple(int(word) for word in words)


def _show_arm(arm: "ArmFigures", screen: Screen) -> None:
    if isinstance(screen, JsonScreen):
        print_json({"event": "arm", **{key: value for key, value in asdict(arm).items() if key not in _BY_TASK}})
        return
    final = arm.final
    screen.say(
        f"{arm.name}: held-out success {interval(final.value, final.low, final.high)} after {arm.updates} updates, "
        f"{arm.steps_s:.0f} s of steps, {arm.tokens_per_s:,.0f} trained tokens a second"
    )


def _show_report(report: "LadderReport", arms: Sequence["ArmFigures"], screen: Screen) -> None:
    if isinstance(screen, PersonScreen):
        _show_tables(report, arms, screen)
        return
    for comparison in report.comparisons:
        print_json({"event": "comparison", **_compared(comparison)})
    for verdict in report.verdicts:
        line = asdict(verdict)
        print_json({"event": "gate", **line, "gate": verdict.gate.measure, "limit": asdict(verdict.gate)})
    counts = {"passed": 0, "failed": 0, "not enough evidence": 0}
    for verdict in report.verdicts:
        counts[verdict.outcome] += 1
    print_json(
        {"event": "level", "level": report.level.number, "highest": report.highest, **counts, "notes": report.notes}
    )


def _compared(comparison: "Comparison") -> dict[str, object]:
    reached = comparison.reached
    return {
        "arm": comparison.arm.name,
        "difference": asdict(comparison.difference),
        "target": comparison.target,
        "reached": None if reached is None else asdict(reached),
        "baseline_reached": asdict(comparison.baseline_reached),
        "clock_ratio": comparison.clock_ratio,
        "clock_interval": None if comparison.clock_interval is None else asdict(comparison.clock_interval),
        "samples_ratio": comparison.samples_ratio,
        "speed_ratio": comparison.speed_ratio,
        "whole_ratio": comparison.whole_ratio,
        "steps_ratio": comparison.steps_ratio,
    }


def _show_tables(report: "LadderReport", arms: Sequence["ArmFigures"], screen: PersonScreen) -> None:
    reached = {c.arm.name: c.reached for c in report.comparisons} | {
        arms[0].name: report.comparisons[0].baseline_reached
    }
    differences = {c.arm.name: c.difference for c in report.comparisons}
    speed = [
        (
            arm.name,
            round(arm.steps_s, 1),
            round(arm.tokens_per_s),
            *_reached(reached[arm.name]),
            interval(arm.final.value, arm.final.low, arm.final.high),
            "" if (d := differences.get(arm.name)) is None else interval(d.value, d.low, d.high),
        )
        for arm in arms
    ]
    screen.table(
        ("arm", "seconds", "tokens/s", "updates to it", "episodes", "clock", "success at the end", "paired difference"),
        speed,
        title=f"speed and quality; `it` is success {report.comparisons[0].target:.3f}, the baseline's",
    )
    screen.table(
        ("arm", "lag", "weights .5", ".99", "max", "held", "ESS", "KL", "mismatch", "probe"),
        [_staleness(arm) for arm in arms],
        title="staleness: mean and largest lag; weights, ESS and mismatch of the worst update; KL k3, nats a token",
    )
    screen.table(
        ("arm", "seconds to it", "interval", "episodes to it", "episodes/s", "seconds of all updates"),
        [_ratios(comparison) for comparison in report.comparisons],
        title=f"times those of {arms[0].name}; seconds to it are episodes to it over episodes a second",
    )
    gates = [(v.arm, v.gate.measure, v.outcome, v.because, _asked(v.gate)) for v in report.verdicts]
    screen.table(("arm", "gate", "verdict", "measured", "asked"), gates, title=report.level.title)
    for note in report.notes:
        screen.say(f"note: {note}")
    screen.say(f"no gate failed up to {report.level.axis.name} {report.highest}")


def _reached(point: "CurvePoint | None") -> tuple[str, str, str]:
    if point is None:
        return ("never", "", "")
    return (str(point.updates), str(point.episodes), f"{point.clock_s:.0f} s")


def _ratios(comparison: "Comparison") -> tuple[str, ...]:
    bounds = comparison.clock_interval
    numbers = (comparison.samples_ratio, comparison.speed_ratio, comparison.whole_ratio)
    interval_of = "" if bounds is None else f"[{bounds.low:.2f}, {bounds.high:.2f}]"
    return (comparison.arm.name, _number(comparison.clock_ratio), interval_of, *map(_number, numbers))


def _asked(gate: "Gate") -> str:
    return f"{gate.bound.replace('_', ' ')} {gate.limit:g}"


def _staleness(arm: "ArmFigures") -> tuple[str, ...]:
    stale = arm.staleness
    lag = f"{_number(stale.lag_mean)} / {_number(stale.lag_max)}"
    tails = [_number(stale.weights[q].worst) for q in ("0.5", "0.99")]
    rest = (stale.weight_max, stale.weights_held, stale.ess.worst, stale.kl_k3, stale.mismatch, stale.probe)
    return (arm.name, lag, *tails, *map(_number, rest))


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.3g}"
