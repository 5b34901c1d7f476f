"""What an episode answers, looked at: the types of the protocol, texts that can be stored, statuses that exist."""

from collections.abc import Mapping

from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, shown
from rollwright.recipes.worlds.checking.stage import describe
from rollwright.record import EnvironmentBrokenError, StepResult, ToolRequest, ToolResult
from rollwright.rollout.borders import read_artifacts as border_artifacts
from rollwright.rollout.borders import read_result as border_result
from rollwright.rollout.borders import read_step as border_step
from rollwright.rollout.calls import STATUSES

__all__ = ["read_artifacts", "read_result", "read_step"]

_ROLES = ("system", "user", "assistant", "tool", "environment")


def read_step(given: object, where: str) -> StepResult:
    """A step as the protocol has it.

    Raises:
        CheckFailedError: for anything else.
    """
    try:
        step = border_step(given)
    except EnvironmentBrokenError as error:
        raise CheckFailedError(f"{where}: {error}") from error
    for observation in step.observations:
        for message in observation.messages:
            if message.role not in _ROLES:
                raise CheckFailedError(
                    f"{where}: a message has role {message.role!r}; the roles are {', '.join(_ROLES)}"
                )
            _refuse_controls(message.text, f"{where}: a message")
    return step


def read_result(given: object, request: ToolRequest, where: str) -> ToolResult:
    """The answer to a call as the protocol has it.

    Raises:
        CheckFailedError: for anything else.
    """
    try:
        result = border_result(given)
    except EnvironmentBrokenError as error:
        raise CheckFailedError(f"{where}: {error}") from error
    if result.status not in STATUSES:
        raise CheckFailedError(
            f"{where}: the status is {shown(result.status)}; the statuses are {', '.join(sorted(STATUSES))}"
        )
    if result.call_id != request.call_id:
        raise CheckFailedError(f"{where}: call {request.call_id!r} was answered as call {result.call_id!r}")
    _refuse_controls(result.text, f"{where}: the result")
    return result


def read_artifacts(given: object, where: str) -> Mapping[str, bytes]:
    """Artifacts as the protocol has them.

    Raises:
        CheckFailedError: for anything else.
    """
    try:
        return border_artifacts(given)
    except EnvironmentBrokenError as error:
        raise CheckFailedError(f"{where}: {describe(error)}") from error


def _refuse_controls(text: str, what: str) -> None:
    """Control characters in what a policy reads: a terminal, a log and a tokenizer each make of them what they like."""
    if text.isascii() and text.isprintable():
        return
    odd = next((c for c in text if c < " " and c not in "\n\t" or c == "\x7f"), None)
    if odd is not None:
        raise CheckFailedError(
            f"{what} holds the control character {odd!r}; say it without (`rollwright.environments.clean_text` does it)"
        )
