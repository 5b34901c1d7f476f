"""`check`: does the record of a run hold together?"""

from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, Run, import_from_here
from rollwright.cli.screen import PersonScreen

if TYPE_CHECKING:
    from rollwright.evidence import CheckReport, LoadedRun

__all__ = ["Depth", "check"]

_SHOWN = 40
_QUICK_RECEIPTS = 20_000
"""As many receipts as are made again in seconds."""


class Depth(StrEnum):
    """How far `check` goes."""

    AUTO = "auto"
    ROWS = "rows"
    RECIPE = "recipe"


def check(
    run: Run,
    *,
    depth: Annotated[
        Depth,
        typer.Option(
            help="`rows`: files and rows against each other, without torch. `recipe`: advantages, weights, losses, "
            "metrics, verdicts and scores are also made again by the run's recipe. `auto`: `recipe` where that takes "
            "seconds.",
        ),
    ] = Depth.AUTO,
    json: Json = False,
) -> None:
    """Verify a whole run folder, and name what is wrong with the place where it is.

    Files against digests, the chain of commits, episodes against their tokens, tool calls, rewards against verdicts,
    the ledger, every gradient against its receipt, metrics, evaluations. A file that was altered is named and read all
    the same, so that the altered row is named too. With findings the exit code is 1.

    ```
    rollwright check runs/arithmetic-tool-seed0
    rollwright check runs/arithmetic-tool-seed0 --depth recipe --json
    ```
    """
    from dataclasses import replace

    from rollwright.evaluation.gates_checked import check_gates
    from rollwright.evidence import check_loaded, load_run

    import_from_here()
    with load_run(run) as loaded:
        report = check_loaded(loaded)
        report = _deeper(loaded, report, depth)
    if report.is_sound:
        report = replace(report, findings=check_gates(run))
    if json:
        _print(report)
    else:
        _show(report)
    if not report.is_sound:
        raise typer.Exit(1)


def _deeper(loaded: "LoadedRun", report: "CheckReport", depth: Depth) -> "CheckReport":
    from dataclasses import replace

    again = "credit, weights, losses, metrics and verdicts were not made again by the recipe"
    way = "; `--depth recipe` does it"
    if depth is Depth.ROWS:
        left = f"{again}{way}."
    elif depth is Depth.AUTO and find_spec("torch") is None:
        left = (
            "credit, weights, losses, metrics and verdicts were not made again by the recipe: torch is not installed."
        )
    elif depth is Depth.AUTO and report.num_receipts > _QUICK_RECEIPTS:
        left = f"{again}: {report.num_receipts:,} receipts take longer than seconds{way}."
    else:
        from rollwright.recipes.rechecking import check_deeply

        return check_deeply(loaded, report)
    return replace(report, not_checked=(*report.not_checked, left))


def _print(report: "CheckReport") -> None:
    for finding in report.findings:
        print_json(
            {
                "event": "finding",
                "place": finding.place,
                "text": finding.text,
                "expected": finding.expected,
                "concern": finding.concern,
                "severity": finding.severity,
            }
        )
    print_json(
        {
            "sound": report.is_sound,
            "findings": len(report.findings),
            "commits": report.num_commits,
            "trajectories": report.num_trajectories,
            "receipts": report.num_receipts,
            "not_checked": list(report.not_checked),
        }
    )


def _show(report: "CheckReport") -> None:
    screen = PersonScreen(Console())
    for finding in report.findings[:_SHOWN]:
        expected = f"; expected: {finding.expected}" if finding.expected else ""
        screen.say(f"{finding.concern}: {finding.place}: {finding.text}{expected}")
    more = len(report.findings) - _SHOWN
    if more > 0:
        screen.say(f"… and {more} more; --json gives all")
    for sentence in report.not_checked:
        screen.say(f"not checked: {sentence}")
    counted = f"{report.num_commits} commits, {report.num_trajectories:,} episodes, {report.num_receipts:,} receipts"
    found = "sound" if report.is_sound else f"{len(report.findings)} findings"
    screen.say(f"{found}: {counted}")
