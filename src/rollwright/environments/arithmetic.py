"""Demonstrations for the arithmetic task: the grammar of a call and of an answer, and nothing about when a call pays.

A fixed share of the demonstrations calls the calculator and copies what it says. The others answer directly: rightly
where the task is easy, with a number drawn at random where it is hard or has no value. So a warm start teaches how to
write a call, how to copy a result and how to end; which of the two ways is worth it is left to the reward.
"""

from dataclasses import dataclass
from random import Random

from rollwright.environments.calculator import calculator
from rollwright.environments.demonstration import DemonstratedTurn
from rollwright.environments.errors import EnvironmentSetupError, ToolError
from rollwright.record import Task, ToolRequest, canonical_json, seed_of
from rollwright.tasks import EASY, UNDEFINED, Payload, payload_of

__all__ = ["ARITHMETIC_INSTRUCTION", "ArithmeticDemonstrator"]

ARITHMETIC_INSTRUCTION = (
    "You may use the calculator. End with a line 'answer: ' and the number. "
    "If the calculator reports a division by zero, end with 'answer: undefined'."
)
"""For models that were not taught the form by a warm start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArithmeticDemonstrator:
    """A `DemonstrateFn`."""

    tool_share: float = 0.4
    """Share of the demonstrations that call the calculator, whatever the task; chosen by seed and task id alone. Below
    a half, so that a warm-started policy that takes the likelier way answers directly."""
    answer_form: str = "answer: {}"
    """How an answer is written; `{}` stands for the value."""

    def __post_init__(self) -> None:
        """Refuse a share or a form that means nothing."""
        if not 0 <= self.tool_share <= 1 or self.answer_form.count("{}") != 1:
            raise EnvironmentSetupError(
                f"tool_share={self.tool_share} must be in 0..1 and answer_form={self.answer_form!r} needs one {{}}"
            )

    def __call__(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns shown for a task.

        Raises:
            EnvironmentSetupError: for a task without an expression.
        """
        payload = payload_of(task)
        expression = payload.text("expression")
        if not expression:
            raise EnvironmentSetupError(
                f"task {task.task_id} has no `info.expression`; only arithmetic tasks can be demonstrated"
            )
        chance = Random(seed_of(seed, "demonstration", task.task_id))
        if chance.random() < self.tool_share:
            request = ToolRequest(
                call_id="c0", tool=calculator.__name__, arguments=canonical_json({"expression": expression})
            )
            return (DemonstratedTurn(text="", calls=(request,)), self._answer(_read(expression)))
        return (self._answer(_alone(payload, chance)),)

    def _answer(self, value: str) -> DemonstratedTurn:
        return DemonstratedTurn(text=self.answer_form.replace("{}", value))


def _read(expression: str) -> str:
    """What is to be copied from the calculator's answer."""
    try:
        return calculator(expression)
    except ToolError:
        return UNDEFINED


def _alone(payload: Payload, chance: Random) -> str:
    """An answer without the tool: never a right one beyond the easy slice."""
    if payload.text("slice") == EASY:
        return payload.answer
    return chance.choice([digit for digit in "0123456789" if digit != payload.answer])
