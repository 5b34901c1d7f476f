"""The commands. Rooms that need torch are imported inside the command that needs them, so that help is instant."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rollwright.cli.screen import JsonScreen, PersonScreen, Screen, print_json

__all__ = ["app", "main"]

app = typer.Typer(
    name="rollwright",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="""Train language-model agents by reinforcement learning; every gradient has a receipt.

First steps: `rollwright recipe list`, `rollwright train arithmetic-tool`, then `rollwright query RUN "SELECT …"`.""",
)
recipe_app = typer.Typer(no_args_is_help=True, help="Look at the recipes that ship.")
app.add_typer(recipe_app, name="recipe")

Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for machines.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one value, for example `--set learner.learning_rate=5e-4` or `--set objective=dapo`. Repeatable.",
    ),
]
Run = Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]


@app.command()
def train(  # noqa: PLR0913 - each parameter is an option that a person may give
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe's name (`rollwright recipe list`) or the path of a .toml file.")
    ] = None,
    settings: Settings = None,
    seed: Annotated[int | None, typer.Option(help="Short for `--set run.seed=N`.")] = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="The new run folder; by default `runs/NAME-seedN`, with a number if taken.")
    ] = None,
    from_run: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Learn again from the stored episodes of RUN instead of sampling; without RECIPE, by its recipe.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print each resolved value with its origin and start nothing.")
    ] = False,
    rollouts_only: Annotated[
        bool, typer.Option("--rollouts-only", help="Sample and record the first batch of each kind; learn nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Train by a recipe.

    Examples:

        rollwright train arithmetic-tool
        rollwright train arithmetic-tool --set run.steps=20 --seed 1 --run-dir runs/short
        rollwright train --from runs/short --run-dir runs/again
    """
    from rollwright.recipes.resolve import resolve
    from rollwright.recipes.runs import TrainOrder, stored_recipe, train_run

    chosen = [*(settings or ()), *([] if seed is None else [f"run.seed={seed}"])]
    if recipe is None and from_run is None:
        raise typer.BadParameter("give a recipe (`rollwright recipe list` shows them) or --from RUN")
    resolved = resolve(recipe, chosen) if recipe is not None else stored_recipe(_needed(from_run), chosen)
    if dry_run:
        _show_resolved(resolved.recipe.model_dump(mode="json", exclude_none=True), resolved.origins, _screen(json))
        return
    screen = _screen(json)
    try:
        result = train_run(
            TrainOrder(resolved=resolved, run_dir=run_dir, source=from_run, is_rollouts_only=rollouts_only), screen
        )
    finally:
        screen.close()
    _show_result(result, screen)


@app.command()
def resume(
    run: Run,
    json: Json = False,
) -> None:
    """Go on with a run that was stopped or killed, from its last saved step.

    The recipe is the stored one. Steps that were not saved never happened; they are done again, and in the
    deterministic mode they come out the same.
    """
    from rollwright.recipes.runs import resume_run

    screen = _screen(json)
    try:
        result = resume_run(run, screen)
    finally:
        screen.close()
    _show_result(result, screen)


@app.command(name="eval")
def evaluate(
    run: Run,
    step: Annotated[int | None, typer.Option(help="Of the checkpoint; by default the newest.")] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="Held-out tasks; by default the recipe's.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Attempts at each; by default the recipe's.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0.0, help="By default the recipe's; 0 is greedy.")] = None,
    json: Json = False,
) -> None:
    """Evaluate a checkpoint of a run on held-out tasks and add the result to the run.

    With other tasks, samples or temperature it is another protocol, with a digest of its own.
    """
    from rollwright.recipes.runs import EvaluationOrder, evaluate_run

    screen = _screen(json)
    try:
        evaluation = evaluate_run(
            EvaluationOrder(run=run, step=step, tasks=tasks, samples=samples, temperature=temperature), screen
        )
    finally:
        screen.close()
    if isinstance(screen, JsonScreen):
        for row in evaluation.rows:
            print_json(
                {
                    "metric": row.metric,
                    "labels": dict(row.labels),
                    "value": row.value,
                    "low": row.low,
                    "high": row.high,
                    "tasks": row.num_tasks,
                    "trajectories": row.num_trajectories,
                    "unscored": row.num_unscored,
                }
            )
        return
    table = Table("metric", "of", "value", "interval", title=f"{evaluation.protocol} at step {evaluation.rows[0].step}")
    for row in evaluation.rows:
        bounds = "" if row.low is None or row.high is None else f"{row.low:.3f} … {row.high:.3f}"
        labels = ", ".join(f"{k} {v}" for k, v in row.labels.items())
        table.add_row(row.metric, labels, "undefined" if row.value is None else f"{row.value:.3f}", bounds)
    screen.table(table)


@app.command()
def query(
    run: Run,
    sql: Annotated[str, typer.Argument(help="DuckDB SQL over the run's views.", show_default=False)],
    json: Json = False,
) -> None:
    """Ask a run anything, in SQL.

    Views: trajectories, segments, tensors, tool_calls, verdicts, receipts, ledger, slots, metrics, evaluations,
    eligible. `expand(…)` turns run-length columns into one value a token.

    Example:

        rollwright query RUN "SELECT step, avg(reward) FROM trajectories JOIN slots USING (trajectory_id) GROUP BY ALL"
    """
    from rollwright.evidence import query as ask

    result = ask(run, sql)
    if json:
        for row in result.rows:
            print_json({c: _plain(v) for c, v in zip(result.columns, row, strict=True)})
        return
    table = Table(*result.columns)
    for row in result.rows:
        table.add_row(*("" if v is None else str(v) for v in row))
    console = Console()
    console.print(table)
    console.print(f"{len(result.rows)} rows")


@recipe_app.command(name="list")
def recipe_list(json: Json = False) -> None:
    """Name the recipes that ship."""
    from rollwright.recipes.resolve import preset_names, resolve

    recipes = [resolve(name).recipe for name in preset_names()]
    if json:
        for recipe in recipes:
            print_json({"name": recipe.run.name, "title": recipe.run.title, "steps": recipe.run.steps})
        return
    table = Table("recipe", "what it shows", "steps")
    for recipe in recipes:
        table.add_row(recipe.run.name, recipe.run.title, str(recipe.run.steps))
    Console().print(table)


@recipe_app.command(name="show")
def recipe_show(
    name: Annotated[str, typer.Argument(help="A recipe's name or the path of a .toml file.", show_default=False)],
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Print a recipe with every value that it resolves to, and where each comes from."""
    from rollwright.recipes.resolve import resolve

    resolved = resolve(name, settings or ())
    _show_resolved(resolved.recipe.model_dump(mode="json", exclude_none=True), resolved.origins, _screen(json))


def main() -> None:
    """Run a command; what a user can mend ends in one sentence, never in a traceback."""
    from rollwright.cli.failures import exit_code_of, sentence_of

    try:
        app(standalone_mode=False)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the outermost edge turns errors into sentences
        sentence = sentence_of(error)
        if sentence is None:
            raise
        if "--json" in sys.argv:
            print_json({"error": sentence})
        Console(stderr=True).print(f"[red]rollwright:[/red] {sentence}", highlight=False, soft_wrap=True)
        sys.exit(exit_code_of(error))


def _screen(json: bool) -> Screen:  # noqa: FBT001 - the option that a person gave
    return JsonScreen() if json else PersonScreen(Console())


def _needed(path: Path | None) -> Path:
    assert path is not None, "checked by the caller"
    return path


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]  # pyright: ignore[reportUnknownVariableType] - rows hold any SQL value
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value)
