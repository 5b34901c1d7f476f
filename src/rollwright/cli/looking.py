"""`query` and `recipe`: looking at runs and recipes, without torch."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, Run, Settings, open_screen
from rollwright.cli.screen import JsonScreen, Screen
from rollwright.cli.tables import SHOWN_ROWS, print_table
from rollwright.recipes.flat import Plain
from rollwright.recipes.resolve import Resolved, preset_names, resolve

__all__ = ["query", "recipe_list", "recipe_show", "show_resolved"]


def query(
    run: Run,
    sql: Annotated[str, typer.Argument(help="One statement in DuckDB's SQL.", show_default=False)],
    *,
    json: Json = False,
) -> None:
    """Ask a run anything, in SQL.

    The views: `trajectories`, `segments`, `tensors`, `tool_calls`, `verdicts`, `receipts`, `ledger`, `metrics`,
    `evaluations`; `tasks`; `slots` (what became of each slot), `contexts` (what each segment was sampled behind) and
    `eligible` (what each loss may train). `expand(...)` turns a run-length column into one value a token. `DESCRIBE
    trajectories` lists the columns of a view.

    ```
    rollwright query RUN "DESCRIBE receipts"
    rollwright query RUN "SELECT step, avg(reward) FROM slots JOIN trajectories USING (trajectory_id) GROUP BY ALL"
    rollwright query RUN "SELECT terminal_reason, count(*) AS n FROM trajectories GROUP BY ALL ORDER BY n DESC" --json
    ```
    """
    from rollwright.evidence import query as ask

    answer = ask(run, sql)
    columns = _distinct(answer.columns)
    if json:
        for row in answer.rows:
            print_json(dict(zip(columns, row, strict=True)))
        return
    console = Console()
    print_table(console, columns, answer.rows[:SHOWN_ROWS])
    shown = "" if len(answer.rows) <= SHOWN_ROWS else f", the first {SHOWN_ROWS} shown; --json gives all"
    console.print(f"{len(answer.rows)} {'row' if len(answer.rows) == 1 else 'rows'}{shown}", highlight=False)


def recipe_list(*, json: Json = False) -> None:
    """Name the recipes that ship.

    ```
    rollwright recipe list
    rollwright recipe list --json
    ```
    """
    recipes = [resolve(name).recipe for name in preset_names()]
    if json:
        for recipe in recipes:
            print_json({"name": recipe.run.name, "title": recipe.run.title, "steps": recipe.run.steps})
        return
    rows = [(recipe.run.name, recipe.run.title, recipe.run.steps) for recipe in recipes]
    print_table(Console(), ("recipe", "what it shows", "steps"), rows)


def recipe_show(
    name: Annotated[str, typer.Argument(help="A recipe's name or the path of a .toml file.", show_default=False)],
    *,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Print every value that a recipe resolves to, where it comes from, and how well it is known.

    Labels: D disclosed by its source, C confirmed in a released artifact, I inferred or chosen here, U unknown.

    ```
    rollwright recipe show arithmetic-tool
    rollwright recipe show mine.toml --set objective=dapo
    ```
    """
    show_resolved(resolve(name, settings or ()), open_screen(json))


def show_resolved(resolved: Resolved, screen: Screen) -> None:
    """Each resolved value with its origin and its label."""
    if isinstance(screen, JsonScreen):
        for key, value in resolved.values().items():
            line = {"key": key, "value": value, "origin": resolved.origins[key], "label": resolved.label_of(key)}
            print_json(line)
        return
    rows = [
        (key, _written(value), resolved.origins[key], resolved.label_of(key) or "")
        for key, value in resolved.values().items()
    ]
    screen.table(("key", "value", "origin", "label"), rows)


def _written(value: Plain) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _distinct(columns: Sequence[str]) -> tuple[str, ...]:
    """Names of columns, repeated ones with a number, so that none hides another."""
    counts: dict[str, int] = {}
    names: list[str] = []
    for column in columns:
        counts[column] = counts.get(column, 0) + 1
        names.append(column if counts[column] == 1 else f"{column}_{counts[column]}")
    return tuple(names)
