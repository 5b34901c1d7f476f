"""Arguments and options that several commands share."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rollwright.cli.screen import JsonScreen, PersonScreen, Screen

__all__ = ["Json", "Run", "Settings", "import_from_here", "open_screen"]

Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for machines.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one value: `--set learner.learning_rate=5e-4`, `--set objective=dapo` (a whole section by its "
        "kind), `--set stages.warm_start.steps=30` (an item of a list by its name). Repeatable.",
    ),
]
Run = Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]


def open_screen(json: Json) -> Screen:
    """What shows the command: lines for a machine, or for a person."""
    return JsonScreen() if json else PersonScreen(Console())


def import_from_here() -> None:
    """Let `package.module:name` name what lies in the current folder; what is installed comes before it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
