"""`env`: the worlds that ship, checks of any world, and a new one to begin with."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollwright.cli.failures import FAILED
from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, import_from_here
from rollwright.cli.tables import print_table

if TYPE_CHECKING:
    from rollwright.recipes.worlds.checking import CheckOutcome

__all__ = ["env_check", "env_list", "env_new", "show_worlds"]

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE:NAME]",
        help="A world that ships (`rollwright env list`), or `package.module:name` of a callable that returns a World, "
        "or of a World. The current folder is importable.",
        show_default=False,
    ),
]
Argument = Annotated[
    list[str] | None,
    typer.Option("--arg", metavar="KEY=VALUE", help="An argument of the callable, in TOML; bare words are text."),
]
ToolsOf = Annotated[
    str | None,
    typer.Option("--tools", metavar="MODULE:NAME", help="List the tools of this world by domain.", show_default=False),
]
IsAll = Annotated[bool, typer.Option("--all", help="Check every world that ships.")]
Tasks = Annotated[int, typer.Option(min=1, max=1000, help="Tasks that are played, of both splits in turn.")]
Limit = Annotated[float, typer.Option(min=0.1, max=3600.0, help="Seconds that one answer of an environment may take.")]


def env_list(*, tools_of: ToolsOf = None, arguments: Argument = None, json: Json = False) -> None:
    """Name the worlds that ship, and the adapters to other people's environments. Or the tools of one, by domain.

    A world brings its environment, tasks and verifiers; an adapter is a world whose arguments say which environment it
    is, each with `--arg KEY=VALUE` of `env check`, or in `environment.arguments` of a recipe.

    ```
    rollwright env list
    rollwright env list --tools clinic
    rollwright env list --tools clinic --arg domains=pharmacy,billing --json
    ```
    """
    if tools_of is not None:
        _list_tools(tools_of, arguments or (), json=json)
        return
    if arguments:
        raise typer.BadParameter("--arg goes with --tools")
    if json:
        _print_worlds()
    else:
        show_worlds(Console())


def show_worlds(console: Console) -> None:
    """Every world and every adapter: a terminal folds what is said into its width, a pipe gets a line of each."""
    from rollwright.recipes.worlds.table import ADAPTED, WORLDS, arguments_of_world, describe_world

    _show_described(console, "Worlds that ship", {name: (describe_world(name),) for name in WORLDS})
    adapters: dict[str, tuple[str, ...]] = {}
    for name in ADAPTED:
        takes = arguments_of_world(name)
        needed, optional = ", ".join(takes.needed) or "nothing", ", ".join(takes.optional) or "nothing else"
        adapters[name] = (describe_world(name), f"Needs {needed}; takes {optional}.")
    console.print()
    _show_described(console, "Adapters to other people's environments, worlds by their arguments", adapters)


def env_check(  # noqa: PLR0913 - each parameter is an option that a person may give
    name: Name = None,
    *,
    is_all: IsAll = False,
    arguments: Argument = None,
    tasks: Tasks = 4,
    limit_s: Limit = 10.0,
    json: Json = False,
) -> None:
    """Check that an environment keeps the contract, in a process of its own.

    Builds it, plays its reference, its attacks, an agent that says nothing and bad calls, and says of each promise
    whether it holds: what was expected, what was seen, and where. The exit code is 0 where all hold, 1 where one does
    not, 2 where the name names nothing.

    ```
    rollwright env check arithmetic
    rollwright env check my_package.my_world:load --arg size=4 --tasks 8
    rollwright env check --all --json
    ```
    """
    from rollwright.recipes.worlds.arguments import read_arguments
    from rollwright.recipes.worlds.checking import CheckOrder, check_world
    from rollwright.recipes.worlds.table import WORLDS

    if (name is None) != is_all:
        raise typer.BadParameter("give one MODULE:NAME, or --all")
    if is_all and arguments:
        raise typer.BadParameter("--arg goes with one MODULE:NAME, not with --all")
    given = read_arguments(arguments or ())
    import_from_here()
    names = tuple(WORLDS) if name is None else (name,)
    failed = 0
    for one in names:
        order = CheckOrder(name=one, arguments=given, num_tasks=tasks, limit_s=limit_s)
        failed += _show(one, check_world(order), json=json)
    if json:
        print_json({"worlds": len(names), "failed": failed})
    if failed:
        raise typer.Exit(FAILED)


def env_new(
    name: Annotated[str, typer.Argument(help="Of the new Python module, such as `shop`.", show_default=False)],
    *,
    into: Annotated[Path, typer.Option(help="The folder that gets it; made where there is none.")] = Path(),
    json: Json = False,
) -> None:
    """Write a working environment to begin with: a module, its tests, a recipe and a README.

    It passes `rollwright env check NAME:load`, its tests pass, and both `rollwright train NAME:load` and `rollwright
    train NAME.toml` run, from the folder that it lies in.

    ```
    rollwright env new shop
    rollwright env new shop --into ../my-environments
    ```
    """
    from rollwright.recipes.worlds.skeleton import write_skeleton

    files = write_skeleton(name, into)
    if json:
        print_json({"name": name, "files": [str(file) for file in files]})
        return
    console = Console()
    for file in files:
        console.print(Text(str(file)), soft_wrap=True)
    where = "" if into == Path() else f"cd {into} && "
    console.print(Text(f"check it: {where}rollwright env check {name}:load"), soft_wrap=True)


def _print_worlds() -> None:
    from rollwright.recipes.worlds.table import ADAPTED, WORLDS, arguments_of_world, describe_world

    for kind, worlds in (("world", WORLDS), ("adapter", ADAPTED)):
        for name, path in worlds.items():
            takes = arguments_of_world(name)
            print_json(
                {
                    "kind": kind,
                    "name": name,
                    "what": describe_world(name),
                    "path": path,
                    "needs": list(takes.needed),
                    "takes": dict(takes.optional),
                }
            )


def _show_described(console: Console, title: str, described: Mapping[str, Sequence[str]]) -> None:
    """Names with all that is said of each."""
    console.print(Text(title, style="bold"), soft_wrap=not console.is_terminal)
    if not console.is_terminal:
        width = max(map(len, described))
        for name, said in described.items():
            console.print(Text(f"{name.ljust(width)}  {' '.join(said)}"), soft_wrap=True)
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, said in described.items():
        grid.add_row(Text(name, style="cyan"), Text("\n".join(said)))
    console.print(grid)


def _list_tools(name: str, arguments: Iterable[str], *, json: bool) -> None:
    """Print each domain of a world with its tools."""
    from rollwright.recipes.worlds.arguments import read_arguments
    from rollwright.recipes.worlds.domains import tools_by_domain

    import_from_here()
    domains = tools_by_domain(name, read_arguments(tuple(arguments)))
    if json:
        for domain, tools in domains.items():
            print_json({"domain": domain, "tools": list(tools)})
        return
    console = Console()
    print_table(console, ("domain", "tools", "which"), [(d, str(len(t)), ", ".join(t)) for d, t in domains.items()])
    console.print(Text(f"{sum(map(len, domains.values()))} tools in {len(domains)} domains"), soft_wrap=True)


def _show(name: str, outcomes: "Iterable[CheckOutcome]", *, json: bool) -> int:
    """Print each outcome as it comes.

    Returns:
        1 where one is not passed, else 0.
    """
    console = Console()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for outcome in outcomes:
        counts[outcome.status] += 1
        if json:
            print_json({"world": name, **outcome.as_line()})
        else:
            style = {"passed": "green", "failed": "red", "skipped": "yellow"}[outcome.status]
            said = f"{outcome.name}: {outcome.sentence}"
            console.print(Text.assemble((f"{outcome.status:8}", style), said), soft_wrap=True)
    if not json:
        skipped = f", {counts['skipped']} not checked" if counts["skipped"] else ""
        console.print(Text(f"{name}: {counts['passed']} passed, {counts['failed']} failed{skipped}"), soft_wrap=True)
    return 0 if counts["failed"] == counts["skipped"] == 0 else 1
