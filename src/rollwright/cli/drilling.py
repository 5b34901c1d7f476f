"""`drill`: a short training under faults, and the account of every slot. What needs torch is imported once needed."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollwright.cli.failures import FAILED
from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, Settings, import_from_here, open_screen
from rollwright.cli.screen import JsonScreen, Screen

if TYPE_CHECKING:
    from rollwright.recipes.drills.drill import DrillReport

__all__ = ["drill"]


Drilled = Annotated[
    str,
    typer.Argument(help="A recipe's name, the path of a .toml file, or a world.", show_default=False),
]
Faults = Annotated[
    str, typer.Option(metavar="all|NAME,…", help="Which faults; `--list` shows them.", show_default=True)
]
KeptRuns = Annotated[
    Path | None,
    typer.Option(
        help="Where the runs are kept, one folder a fault; by default they are removed, unless one failed.",
        show_default=False,
    ),
]
LimitSeconds = Annotated[float, typer.Option(min=1.0, help="Seconds after which a struck run counts as hung.")]
ListFaults = Annotated[bool, typer.Option("--list", help="Show the faults and run nothing.")]


def drill(  # noqa: PLR0913 - each parameter is an option that a person may give
    recipe: Drilled,
    *,
    faults: Faults = "all",
    settings: Settings = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the runs; it moves the moment of each strike.")] = 0,
    run_dir: KeptRuns = None,
    limit_s: LimitSeconds = 120.0,
    is_list: ListFaults = False,
    json: Json = False,
) -> None:
    """Train a few steps of a recipe under each of many faults, and account for every slot that was dispatched.

    The recipe is made small; what `--set` says comes on top. Each fault strikes a run of its own: a part dies, hangs,
    fails or lies, a message comes twice or never, the disk is full, a file is cut, the clock steps. A run that stops is
    resumed. Then its stored tables must hold each slot once, train nothing twice, lose nothing, and score no failure.

    The exit code is 0 where all pass, 1 where one fails.

    ```
    rollwright drill arithmetic-tool
    rollwright drill arithmetic-tool --faults engine_dies,disk_full --json
    rollwright drill my.toml --set runtime.max_lag=2 --run-dir drills
    rollwright drill arithmetic-tool --list
    ```
    """
    screen = open_screen(json)
    if is_list:
        _show_faults(faults, screen)
        return
    import_from_here()
    from rollwright.recipes.drills.drill import DrillsOrder
    from rollwright.recipes.drills.drill import drill as drilled

    folder = run_dir or Path(tempfile.mkdtemp(prefix="rollwright-drill-"))
    order = DrillsOrder(
        recipe=recipe, settings=tuple(settings or ()), faults=faults, seed=seed, folder=folder, limit_s=limit_s
    )
    failed = passed = skipped = 0
    try:
        for report in drilled(order):
            failed += report.has_failed
            skipped += report.skipped is not None
            passed += not report.has_failed and report.skipped is None
            _show(report, screen)
    finally:
        is_kept = run_dir is not None or failed > 0
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)
    _conclude(screen, {"passed": passed, "failed": failed, "skipped": skipped}, folder if is_kept else None)
    if failed:
        raise typer.Exit(FAILED)


def _show_faults(names: str, screen: Screen) -> None:
    from rollwright.recipes.drills.faults import chosen_faults

    for fault in chosen_faults(names):
        if isinstance(screen, JsonScreen):
            print_json({"fault": fault.name, "does": fault.does, "holds": fault.holds})
        else:
            screen.say(f"{fault.name}: {fault.does}. What must hold: {fault.holds}.")


def _show(report: "DrillReport", screen: Screen) -> None:
    if isinstance(screen, JsonScreen):
        print_json(_line(report))
        return
    if report.skipped is not None:
        screen.say(f"skip  {report.fault.name}: {report.skipped}")
        return
    screen.say(
        f"{'FAIL' if report.has_failed else 'PASS'}  {report.fault.name} ({report.seconds:.0f} s): {report.fault.does}"
    )
    screen.say(f"      struck {report.hits} times; the run {report.outcome}")
    if report.account is not None:
        screen.say(f"      {report.account}")
    for sentence in report.wrong:
        screen.say(f"      wrong: {sentence}")


def _line(report: "DrillReport") -> dict[str, object]:
    account = report.account
    return {
        "fault": report.fault.name,
        "seed": report.seed,
        "passed": None if report.skipped is not None else not report.has_failed,
        "skipped": report.skipped,
        "hits": report.hits,
        "outcome": report.outcome,
        "dispatched": None if account is None else account.dispatched,
        "states": None if account is None else dict(account.by_state),
        "wrong": list(report.wrong),
        "seconds": round(report.seconds, 2),
    }


def _conclude(screen: Screen, counts: dict[str, int], kept: Path | None) -> None:
    if isinstance(screen, JsonScreen):
        print_json({**counts, "runs": None if kept is None else str(kept)})
        return
    where = "" if kept is None else f"; the runs are in {kept}"
    screen.say(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped{where}")
