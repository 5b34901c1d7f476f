"""Errors become sentences and exit codes; our own bugs keep their traceback."""

import asyncio

import pytest
import typer

from rollwright.cli.failures import ASKED_WRONGLY, FAILED, PAUSED, STOPPED, failure_of
from rollwright.evidence import DiskFullError
from rollwright.recipes.errors import RecipeError
from rollwright.runtime.errors import NoProgressError, RunPausedError, RunStoppedError


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (RecipeError("unknown key x"), ASKED_WRONGLY, "unknown key x"),
        (typer.BadParameter("give a recipe"), ASKED_WRONGLY, "give a recipe; --help"),
        (DiskFullError("the disk is full"), FAILED, "the disk is full"),
        (NoProgressError("nothing can be trained"), FAILED, "nothing can be trained"),
        (FileNotFoundError(2, "No such file", "x"), FAILED, "No such file: 'x'"),
        (RunStoppedError("stopped; saved"), STOPPED, "stopped; saved"),
        (RunPausedError("alarm entropy rose"), PAUSED, "alarm entropy rose"),
        (KeyboardInterrupt(), STOPPED, "rollwright resume"),
        (asyncio.CancelledError(), STOPPED, "rollwright resume"),
        (OSError("many\nlines  of\n text"), FAILED, "many lines of text"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_has_a_sentence_and_a_code(error, code, says):
    failure = failure_of(error)
    assert failure is not None
    assert failure.exit_code == code
    assert says in failure.sentence


def test_the_first_error_of_a_group_is_said():
    group = BaseExceptionGroup("tasks", [ExceptionGroup("inner", [RecipeError("unknown key x")]), OSError("later")])
    failure = failure_of(group)
    assert failure is not None
    assert failure.sentence == "unknown key x"


@pytest.mark.parametrize("bug", [AssertionError("ours"), KeyError("x"), TypeError("x"), ValueError("not of a room")])
def test_a_bug_is_not_dressed_as_a_failure(bug):
    assert failure_of(bug) is None


@pytest.mark.parametrize("command", ["eval", "query", "recipe"])
def test_a_stopped_command_that_trains_nothing_speaks_of_no_resuming(command):
    failure = failure_of(KeyboardInterrupt(), command)
    assert failure is not None
    assert failure.exit_code == STOPPED
    assert "resume" not in failure.sentence
