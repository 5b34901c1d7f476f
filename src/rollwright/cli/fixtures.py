"""`fixtures`: worked numbers of methods, run against the library."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from rollwright.cli.failures import FAILED
from rollwright.cli.machine import print_json
from rollwright.cli.options import Json
from rollwright.recipes.fixtures.reading import Fixture, read_fixtures, shipped_fixtures

__all__ = ["fixtures"]

Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FILE ...]", help="JSON files; without one, what ships is run.", show_default=False),
]
ShowList = Annotated[
    bool, typer.Option("--list", help="Show each method with its inputs, outputs and source, and run nothing.")
]

_SHOWN_DIFFERENCES = 3


def fixtures(files: Files = None, *, is_list: ShowList = False, json: Json = False) -> None:
    """Run worked numbers of methods against the library, and say which it does not give.

    A file holds a JSON list of fixtures, or an object with that list under `fixtures`. Each has `id`, `method` (M01 …),
    `input` and `expect` by name, and may have `tol` (1e-9) and `note`. Where JSON has no word, write "inf", "-inf",
    "nan", or "undefined" for what has no value. With a file, `--list` shows the methods that it names.

    The exit code is 0 where all pass, 1 where one fails, 2 where one names a method or an input that does not exist.

    ```
    rollwright fixtures
    rollwright fixtures mine.json
    rollwright fixtures --list
    ```
    """
    chosen = [fixture for file in files or () for fixture in read_fixtures(file)] if files else shipped_fixtures()
    if is_list:
        _list_methods(chosen, json=json)
        return
    _run(chosen, json=json)


def _run(chosen: Sequence[Fixture], *, json: bool) -> None:
    from rollwright.recipes.fixtures.families import load_adapters
    from rollwright.recipes.fixtures.running import run_fixtures

    outcomes = run_fixtures(chosen, load_adapters())
    failed = [outcome for outcome in outcomes if not outcome.has_passed]
    if json:
        for outcome in outcomes:
            print_json(outcome.as_line())
        print_json({"passed": len(outcomes) - len(failed), "failed": len(failed)})
    else:
        console = Console()
        for outcome in failed:
            console.print(Text(outcome.sentence(_SHOWN_DIFFERENCES)), soft_wrap=True)
        console.print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed", highlight=False)
    if failed:
        raise typer.Exit(FAILED)


def _list_methods(chosen: Sequence[Fixture], *, json: bool) -> None:
    from rollwright.recipes.fixtures.listing import list_methods

    listings = list_methods(chosen)
    if json:
        for listing in listings:
            print_json(listing.as_line())
        return
    console = Console()
    for listing in listings:
        console.print(Text(listing.text()), soft_wrap=True)
