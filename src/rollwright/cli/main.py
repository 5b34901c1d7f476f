"""The command line: its commands, and the edge at which errors become sentences."""

import asyncio
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from rollwright.cli.auditing import audit
from rollwright.cli.checking import check
from rollwright.cli.comparing import compare
from rollwright.cli.data import data_overlap
from rollwright.cli.drilling import drill
from rollwright.cli.engines import engine_check
from rollwright.cli.environments import env_check, env_list, env_new
from rollwright.cli.explaining import recipe_explain
from rollwright.cli.failures import FAILED, STOPPED, Failure, failure_of
from rollwright.cli.fixtures import fixtures
from rollwright.cli.laddering import ladder
from rollwright.cli.looking import query, recipe_list, recipe_show
from rollwright.cli.machine import print_json
from rollwright.cli.output import finish_output, open_output, say_aside
from rollwright.cli.replaying import replay
from rollwright.cli.reporting import report
from rollwright.cli.scoring import score
from rollwright.cli.training import evaluate, resume, train
from rollwright.cli.viewing import view
from rollwright.cli.why import why

__all__ = ["main", "make_app", "run_command"]


def main() -> None:
    """Run the command that the process was started with."""
    open_output()
    sys.exit(finish_output(run_command(sys.argv[1:])))


def run_command(arguments: Sequence[str]) -> int:
    """Run a command; what a user can mend ends in one sentence, never in a traceback.

    Args:
        arguments: of the command line, without the program's name.

    Returns:
        The exit code: 0 done, 1 failed, 2 asked wrongly, 3 paused by an alarm, 130 stopped.
    """
    command = next((word for word in arguments if not word.startswith("-")), "")
    try:
        code = make_app()(args=list(arguments) or ["--help"], prog_name="rollwright", standalone_mode=False)
    except BrokenPipeError:
        return FAILED  # The reader, such as `head`, has all that it wanted.
    except (Exception, KeyboardInterrupt, asyncio.CancelledError) as error:  # noqa: BLE001 - here errors become sentences
        failure = failure_of(error, command)
        if failure is None:
            if "--json" in arguments:
                print_json({"error": f"a bug in rollwright: {type(error).__name__}: {error}", "exit_code": 1})
            raise
        return _say(failure, arguments)
    if code == STOPPED:
        return _say(failure_of(KeyboardInterrupt(), command), arguments)
    return int(code or 0)


def make_app() -> typer.Typer:
    """The commands."""
    app = typer.Typer(
        name="rollwright",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    app.callback()(_rollwright)
    app.command(name="train")(train)
    app.command(name="resume")(resume)
    app.command(name="eval")(evaluate)
    app.command(name="replay")(replay)
    app.command(name="score")(score)
    app.command(name="audit")(audit)
    app.command(name="drill")(drill)
    app.command(name="ladder")(ladder)
    app.command(name="query")(query)
    app.command(name="view")(view)
    app.command(name="compare")(compare)
    app.command(name="report")(report)
    app.command(name="check")(check)
    app.command(name="why")(why)
    app.command(name="fixtures")(fixtures)
    recipe = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Look at the recipes that ship.")
    recipe.command(name="list")(recipe_list)
    recipe.command(name="show")(recipe_show)
    recipe.command(name="explain")(recipe_explain)
    app.add_typer(recipe, name="recipe")
    data = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Look at tasks: what of them leaked.")
    data.callback()(_data)
    data.command(name="overlap")(data_overlap)
    app.add_typer(data, name="data")
    engine = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Engines: check one.")
    engine.callback()(_engine)
    engine.command(name="check")(engine_check)
    app.add_typer(engine, name="engine")
    env = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Environments: list, check, begin one.")
    env.command(name="list")(env_list)
    env.command(name="check")(env_check)
    env.command(name="new")(env_new)
    app.add_typer(env, name="env")
    return app


def _version(is_asked: bool) -> None:  # noqa: FBT001 - typer hands over the flag
    if is_asked:
        sys.stdout.write(f"rollwright {version('rollwright')}\n")
        raise typer.Exit


def _data() -> None:
    """Look at tasks: what of them leaked."""


def _engine() -> None:
    """Engines: check one."""


def _rollwright(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Train language-model agents by reinforcement learning; every gradient has a receipt.

    First steps:

    ```
    rollwright recipe list
    rollwright train arithmetic-tool
    rollwright query RUN "SELECT step, sum(influence) FROM receipts GROUP BY ALL ORDER BY step"
    ```
    """


def _say(failure: Failure | None, arguments: Sequence[str]) -> int:
    """Tell a machine or a person; a shown help needs no more words."""
    assert failure is not None, "stopping is a failure that can be said"
    if not failure.sentence:
        return failure.exit_code
    if "--json" in arguments:
        try:
            print_json({"error": failure.sentence, "exit_code": failure.exit_code})
        except OSError:  # what cannot be written there is said to the person
            say_aside(failure.sentence)
    else:
        say_aside(failure.sentence)
    return failure.exit_code
