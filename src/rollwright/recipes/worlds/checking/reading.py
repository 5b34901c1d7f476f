"""What an episode answers, looked at: the types of the protocol, texts that can be stored, statuses that exist."""

from collections.abc import Mapping

from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, shown
from rollwright.recipes.worlds.checking.stage import describe
from rollwright.record import EnvironmentBrokenError, StepResult, ToolRequest, ToolResult
from rollwright.rollout.borders import read_artifacts as border_artifacts
from rollwright.rollout.borders import read_result as border_result
from rollwright.rollout.borders import read_step as border_step
from rollwright.rollout.calls import STATUSES

__all__ = ["read_artifacts", "read_result", "read_step", "refuse_early_reward"]

_ROLES = ("system", "user", "assistant", "tool", "environment")
LONGEST_TEXT = 1_000_000
"""Characters of one text, whatever limits are declared: more fills any context, and costs memory in every episode."""


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
            _refuse_text(message.text, f"{where}: a message")
    if step.end is not None and step.observations:
        raise CheckFailedError(
            f"{where}: the end {step.end} comes with {len(step.observations)} observations; each would open a turn "
            "that nobody takes"
        )
    return step


def refuse_early_reward(step: StepResult, where: str) -> None:
    """A reward belongs to a turn.

    Raises:
        CheckFailedError: where the beginning brings one.
    """
    if step.rewards:
        raise CheckFailedError(
            f"{where}: it paid the reward {shown(step.rewards[0].name)} before any turn was taken; a reward comes with "
            "the step of the turn that earned it"
        )


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
    _refuse_text(result.text, f"{where}: the result")
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


def _refuse_text(text: str, what: str) -> None:
    """Texts beyond all bounds, and control characters: terminals, logs and tokenizers make of them what they like."""
    if len(text) > LONGEST_TEXT:
        raise CheckFailedError(
            f"{what} has {len(text):,} characters; at most {LONGEST_TEXT:,} can be read, and a limit of its own is far "
            "below (`rollwright.environments.cut_text` cuts with a mark)"
        )
    if text.isascii() and text.isprintable():
        return
    odd = next((c for c in text if c < " " and c not in "\n\t" or c == "\x7f"), None)
    if odd is not None:
        raise CheckFailedError(
            f"{what} holds the control character {odd!r}; say it without (`rollwright.environments.clean_text` does it)"
        )
