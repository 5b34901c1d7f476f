"""What a world of someone else's environment is given by name: demonstrations, functions, JSON in a text."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from rollwright.environments import DemonstratedTurn, DemonstrateFn, EnvironmentSetupError
from rollwright.recipes.build.named import load_named
from rollwright.recipes.errors import RecipeError
from rollwright.record import Message, Task
from rollwright.tasks import (
    Json,
    Payload,
    SplitSizes,
    Stratum,
    TaskError,
    fill_splits,
    parse_messages,
    read_json,
    stratum_of,
)

__all__ = ["brought_demonstration", "brought_function", "brought_json", "row_tasks", "seeded_tasks"]

_DECIDED = "(the environment decides)"


def brought_demonstration(path: str) -> DemonstrateFn:
    """The `DemonstrateFn` that `package.module:name` names; without a name, one that says that nobody brought any."""
    if path:
        return cast("DemonstrateFn", brought_function(path))

    def missing(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        raise EnvironmentSetupError(
            f"nobody brought a solution of {task.source}; name one by the world's argument reference "
            "(package.module:function of a task and a seed to turns), or leave the supervised stage out"
        )

    return missing


def brought_function(path: str) -> Callable[..., object]:
    """The callable that `package.module:name` names.

    Raises:
        RecipeError: where it cannot be loaded or is no callable.
    """
    found = load_named(path)
    if not callable(found):
        raise RecipeError(f"{path!r} is a {type(found).__name__}; name something that can be called.")
    return found


def brought_json(argument: str, text: str) -> Mapping[str, Json]:
    """A JSON object in a text argument; an empty text is an empty object.

    Raises:
        RecipeError: where it is none.
    """
    try:
        loaded = read_json(text or "{}")
    except ValueError as error:
        raise RecipeError(f"argument {argument} is no JSON: {error}") from error
    if not isinstance(loaded, Mapping):
        raise RecipeError(f"argument {argument} must be a JSON object such as '{{\"size\": 4}}'; it is {text[:60]!r}")
    return loaded


def seeded_tasks(source: str, revision: str, sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
    """Tasks that are seeds: someone else's environment makes the problem when it is reset with `info.seed`."""
    first = seed % 2**20 * 1000
    payloads = (
        Payload(
            messages=(Message(role="user", text=f"{source}, seed {number}"),),
            answer=_DECIDED,
            info={"seed": number},
        )
        for number in range(first, first + 100 * (sizes.train + sizes.held_out) + 100)
    )
    return (stratum_of(fill_splits(payloads, sizes, name=source, revision=revision), 1.0),)


AskedFn = Callable[[Mapping[str, Json]], tuple[Message, ...]]
"""A row to what it asks."""


def _prompt(row: Mapping[str, Json]) -> tuple[Message, ...]:
    prompt = row.get("prompt")
    return (Message(role="user", text=prompt),) if isinstance(prompt, str) else parse_messages(prompt)


def row_tasks(
    path: Path, source: str, revision: str, sizes: SplitSizes, *, asked: AskedFn = _prompt
) -> tuple[Stratum, ...]:
    """Tasks that are rows of a file: `prompt` (or what `asked` reads) is asked, and the row is kept as `info.row`.

    Raises:
        RecipeError: for a file that cannot be read, or a row without a prompt.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise RecipeError(f"rows={str(path)!r} cannot be read: {error.strerror}") from error
    payloads = [_row_payload(line, f"{path}:{number}", asked) for number, line in enumerate(lines, 1) if line.strip()]
    return (stratum_of(fill_splits(payloads, sizes, name=source, revision=revision), 1.0),)


def _row_payload(line: str, where: str, asked: AskedFn) -> Payload:
    try:
        row = read_json(line)
        if not isinstance(row, Mapping):
            raise TaskError("it is no JSON object")
        return Payload(messages=asked(row), answer=_DECIDED, info={"row": row})
    except (TaskError, EnvironmentSetupError, ValueError) as error:
        raise RecipeError(f"{where}: {error}") from error
