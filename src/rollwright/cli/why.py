"""`why`: from a step back to its tokens, and from a task forward to what became of it."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, Run
from rollwright.cli.screen import PersonScreen

if TYPE_CHECKING:
    from rollwright.evidence.why import Answer, Asked

__all__ = ["why"]


def why(  # noqa: PLR0913 - each parameter is an option that a person may give
    run: Run,
    *,
    step: Annotated[int | None, typer.Option(min=0, help="Of all stages.", show_default=False)] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TRAJECTORY/SEGMENT/INDEX", help="One token, such as t000123-04-0/3/7.", show_default=False
        ),
    ] = None,
    trajectory: Annotated[str | None, typer.Option(help="One episode, by its id.", show_default=False)] = None,
    task: Annotated[
        str | None, typer.Option(help="A task: every slot, attempt, verdict and step it came to.", show_default=False)
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Tokens and episodes that are named.")] = 10,
    sources: Annotated[bool, typer.Option("--sources", help="Print beside each fact the SQL that gives it.")] = False,
    json: Json = False,
) -> None:
    """Say why a step moved the weights as it did, in words and numbers.

    Which tokens moved it most, how their advantage came from the group's rewards, which parts and verifiers made these,
    what they saw, and what clipped, masked or weighed the token. With `--task`, the way forward: what became of a task.
    Every number can be asked for by hand: `--sources` prints the query.

    ```
    rollwright why runs/arithmetic-tool-seed0 --step 350
    rollwright why runs/arithmetic-tool-seed0 --token t022160-00-0/3/0 --sources
    rollwright why runs/arithmetic-tool-seed0 --trajectory t022160-00-0
    rollwright why runs/arithmetic-tool-seed0 --task arithmetic/ba3ad415f51600e5 --json
    ```
    """
    from rollwright.evidence.why import Asked

    given = [name for name, value in (("--token", token), ("--trajectory", trajectory), ("--task", task)) if value]
    if len(given) > 1:
        raise typer.BadParameter(f"ask about one thing at a time; {' and '.join(given)} were given.")
    if task is not None and step is not None:
        raise typer.BadParameter("a task is followed through all steps; leave --step out.")
    with Asked(run) as asked:
        answer = _answer(asked, step, token=token, trajectory=trajectory, task=task, most=most)
    if json:
        print_json(answer.as_tree())
        return
    screen = PersonScreen(Console())
    for line in _lines(answer, "", has_sources=sources):
        screen.say(line)


def _answer(  # noqa: PLR0913 - the options as given
    asked: "Asked", step: int | None, *, token: str | None, trajectory: str | None, task: str | None, most: int
) -> "Answer":
    from rollwright.evidence.why import TokenPlace, step_answer, task_answer, token_answer, trajectory_answer

    if token is not None:
        return token_answer(asked, TokenPlace.of(token), step)
    if trajectory is not None:
        return trajectory_answer(asked, trajectory, step, most=most)
    if task is not None:
        return task_answer(asked, task)
    if step is None:
        steps = sorted({commit.step for commit in asked.folder.commits})
        there = f"steps {steps[0]} to {steps[-1]}" if steps else "no step yet"
        raise typer.BadParameter(f"give --step N (the run has {there}), --token, --trajectory or --task.")
    return step_answer(asked, step, most=most)


def _lines(answer: "Answer", indent: str, *, has_sources: bool) -> list[str]:
    """The answer as indented lines."""
    lines = [f"{indent}{answer.title}"]
    for fact in answer.facts:
        lines.append(f"{indent}  {fact.text}")
        if has_sources and fact.source:
            lines.append(f"{indent}    = {fact.source}")
    for part in answer.parts:
        lines += _lines(part, f"{indent}  ", has_sources=has_sources)
    return lines
