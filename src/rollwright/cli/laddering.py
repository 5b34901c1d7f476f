"""`ladder`: levels of claims about training, each run and judged before the next."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollwright.cli.failures import FAILED
from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, Settings, import_from_here, open_screen
from rollwright.cli.screen import JsonScreen, PersonScreen, Screen

if TYPE_CHECKING:
    from rollwright.recipes.ladder.report import LadderVerdict, LevelReport
    from rollwright.recipes.ladder.runs import LadderOrder

__all__ = ["ladder"]

_AT_ONCE = 2
"""Runs side by side where the machine has as many cores."""
Level = Annotated[
    int | None, typer.Argument(help="The last to climb; without it, as far as the gates pass.", show_default=False)
]
Only = Annotated[bool, typer.Option("--only", help="That level alone, and none below it.")]
Recipe = Annotated[str | None, typer.Option(help="Your recipe's name or file, in every level.", show_default=False)]
Seed = Annotated[int, typer.Option(min=0, help="Of the first run of each level.")]
Updates = Annotated[int | None, typer.Option(min=1, help="Steps of RL; by default the recipe's.", show_default=False)]
Tasks = Annotated[int | None, typer.Option(min=2, help="Held-out tasks; by default the level's.", show_default=False)]
Lags = Annotated[str | None, typer.Option(metavar="0,N,…", help="Arms of level 5, 0 first.", show_default=False)]
Second = Annotated[
    str,
    typer.Option(metavar="MODULE:NAME", help="A verifier unrelated to your recipe's, for level 2.", show_default=False),
]
Fault = Annotated[
    str, typer.Option(help="Break the runs so that a gate must fail: a test of the ladder.", show_default=False)
]
AtOnce = Annotated[
    int | None, typer.Option(min=1, help="Runs that train side by side; by default as cores allow.", show_default=False)
]
Runs = Annotated[Path, typer.Option(help="Where runs and reports are kept.")]


def ladder(  # noqa: PLR0913 - each parameter is an option that a person may give
    level: Level = None,
    *,
    is_only: Only = False,
    recipe: Recipe = None,
    lags: Lags = None,
    seed: Seed = 0,
    updates: Updates = None,
    tasks: Tasks = None,
    second: Second = "",
    fault: Fault = "",
    settings: Settings = None,
    at_once: AtOnce = None,
    runs: Runs = Path("runs/ladder"),
    json: Json = False,
) -> None:
    """Climb the ladder from level 0: each level is run and judged, and the next begins only when it has passed.

    0 mathematics, 1 supervised, 2 one turn, 3 one tool, 4 a world with state, 5 bounded lag, 6 a mixture. The limits
    were fixed beforehand; each gate has passed, failed, or not enough evidence. What `--runs` holds already is read and
    not run again; a run that was cut short is gone on with. Reports are written there.

    The exit code is 1 where a level did not pass.

    ```
    rollwright ladder 3
    rollwright ladder 5 --only --lags 0,2
    rollwright ladder 2 --recipe my.toml --second my_package.checks:verifier
    rollwright ladder 2 --fault length_hack
    ```
    """
    from rollwright.recipes.ladder.climbing import levels_to
    from rollwright.recipes.ladder.runs import LadderOrder

    import_from_here()
    levels = levels_to(level)
    order = LadderOrder(
        folder=runs,
        recipe=recipe,
        settings=tuple(settings or ()),
        seed=seed,
        second=second,
        at_once=at_once or min(_AT_ONCE, os.cpu_count() or 1),
        fault=fault,
        lags=_values(lags),
        tasks=tasks,
        updates=updates,
    )
    screen = open_screen(json)
    _climb(levels[-1:] if is_only or fault else levels, order, screen)


def _climb(levels: tuple[int, ...], order: "LadderOrder", screen: Screen) -> None:
    from rollwright.recipes.ladder.climbing import climb_ladder

    left = list(levels)
    for report in climb_ladder(levels, order, screen.warned):
        left.remove(report.level)
        _show(report, order.folder, screen)
        if report.outcome != "passed":
            if left:
                screen.warned(f"level {report.level} has not passed, so {_listed(left)} not begun")
            raise typer.Exit(FAILED)


def _listed(levels: Sequence[int]) -> str:
    named = ", ".join(map(str, levels))
    return f"level {named} was" if len(levels) == 1 else f"levels {named} were"


def _values(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise typer.BadParameter(
            f"--lags takes whole numbers with commas between them, such as 0,1,2; {text!r} is not."
        )
    return tuple(int(word) for word in words)


def _show(report: "LevelReport", runs: Path, screen: Screen) -> None:
    from rollwright.recipes.ladder.report import document_of

    if isinstance(screen, JsonScreen):
        print_json({"event": "level", **document_of(report)})
    if not isinstance(screen, PersonScreen):
        return
    for table in report.tables:
        screen.table(table.header, table.rows, title=table.title)
    rows = [_row(one) for one in report.verdicts]
    screen.table(("run", "gate", "verdict", "measured", "asked", "label"), rows, title=report.title)
    for sentence in (*report.missing, *report.notes):
        screen.say(f"note: {sentence}")
    page = (runs / f"fault-{report.fault}" if report.fault else runs) / f"level-{report.level}.md"
    screen.say(f"level {report.level}: {report.outcome}, {report.seconds:.0f} s; {page}")


def _row(one: "LadderVerdict") -> tuple[str, ...]:
    verdict = one.verdict
    return (one.run, verdict.gate, verdict.outcome, str(verdict.measured), str(verdict.bound), one.limit.label)
