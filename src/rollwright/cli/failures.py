"""Errors as sentences: what a person can mend, and the exit code that a script reads."""

import asyncio
from dataclasses import dataclass
from typing import cast

import typer

from rollwright.recipes.errors import RecipeError
from rollwright.runtime.errors import RunPausedError, RunStoppedError

__all__ = ["ASKED_WRONGLY", "FAILED", "PAUSED", "STOPPED", "Failure", "failure_of"]

FAILED = 1
ASKED_WRONGLY = 2
PAUSED = 3
"""An alarm of the run rose; its state is kept."""
STOPPED = 130

_GOES_ON = "stopped at once; every step that was saved is kept, and `rollwright resume RUN` goes on from it."
_STOPPED_SENTENCES = {
    "train": _GOES_ON,
    "resume": _GOES_ON,
    "eval": "stopped at once; an evaluation that did not finish adds nothing to the run.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a person reads and what a script reads."""

    sentence: str
    """Empty where the help was shown instead."""
    exit_code: int


def failure_of(error: BaseException, command: str = "train") -> Failure | None:
    """What to say of an error; None for our own bugs, which keep their traceback.

    Args:
        error: what a command ended with.
        command: its name; decides what can be done after a stop.
    """
    if isinstance(error, BaseExceptionGroup):
        return failure_of(cast("BaseExceptionGroup[BaseException]", error).exceptions[0], command)
    match error:
        case typer.TyperException():
            message = error.format_message()
            hint = f"{message.rstrip('.')}; --help behind the command says what it takes." if message else ""
            return Failure(sentence=hint, exit_code=error.exit_code if message else 0)
        case KeyboardInterrupt() | asyncio.CancelledError():
            return Failure(sentence=_STOPPED_SENTENCES.get(command, "stopped at once."), exit_code=STOPPED)
        case RunPausedError() | RunStoppedError():
            return Failure(sentence=str(error), exit_code=PAUSED if isinstance(error, RunPausedError) else STOPPED)
        case RecipeError():
            return Failure(sentence=str(error), exit_code=ASKED_WRONGLY)
        case _:
            return _failure_in(error)


def _failure_in(error: BaseException) -> Failure | None:
    """An error of a room, of the system or of the database is said; an assertion and the like are ours."""
    rooms = {cls.__module__.partition(".")[0] for cls in type(error).__mro__}
    if "rollwright" in rooms:
        return Failure(sentence=_one_line(str(error)) or type(error).__name__, exit_code=FAILED)
    if isinstance(error, OSError):
        return Failure(sentence=_one_line(str(error)), exit_code=FAILED)
    if rooms & {"duckdb", "_duckdb"}:
        problem = _one_line(str(error).partition("\n\n")[0])
        return Failure(sentence=f"the query cannot be answered: {problem}", exit_code=ASKED_WRONGLY)
    return None


def _one_line(text: str) -> str:
    return " ".join(text.split())
