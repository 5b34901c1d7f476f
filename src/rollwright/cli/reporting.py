"""`report`: what runs came to, as Markdown and as one HTML page."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rollwright.cli.machine import print_json
from rollwright.cli.options import Json
from rollwright.cli.screen import PersonScreen

__all__ = ["report"]


def report(
    runs: Annotated[list[Path], typer.Argument(help="One run folder, or several to compare.", show_default=False)],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Where to write; by default reports/NAME of the run, reports/comparison of several.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write what runs came to: curves with intervals, the ledger, gates, and what may be claimed of them.

    A sentence whose evidence is missing is not written; what it lacks is. Everything comes from the run folders, so a
    run that goes on, or was copied from elsewhere, is reported on like any other; nothing is written into them.

    ```
    rollwright report runs/arithmetic-tool-seed0
    rollwright report runs/seed0 runs/seed1 runs/seed2 --out reports/seeds
    ```
    """
    from rollwright.viewer.report import write_report

    folder = out or Path("reports") / (runs[0].resolve().name if len(runs) == 1 else "comparison")
    written = write_report(runs, folder)
    if json:
        print_json(
            {
                "markdown": str(written.markdown),
                "html": str(written.html),
                "drawings": len(written.drawings),
                "claimed": written.claimed,
                "not_claimed": written.not_claimed,
            }
        )
        return
    screen = PersonScreen(Console())
    screen.say(f"page: {written.html}")
    screen.say(f"markdown: {written.markdown}, with {len(written.drawings)} drawings beside it")
    screen.say(f"claims: {written.claimed} made, {written.not_claimed} not made, each with what it lacks")
