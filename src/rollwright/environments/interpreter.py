"""Mathematics with a Python interpreter: code is written by the policy, what it prints is read by it."""

from dataclasses import dataclass
from random import Random
from typing import Literal

from rollwright.environments.call_rules import ToolLimits
from rollwright.environments.code_blocks import CodeBlocks
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.sandbox_tools import ToolAnswer, sandbox_tool, told_program
from rollwright.environments.sandboxed import SandboxEnvironment
from rollwright.record import Task, ToolRequest, canonical_json, seed_of
from rollwright.sandboxes import Sandbox, Sandboxes
from rollwright.tasks import payload_of

__all__ = [
    "INTERPRETER_INSTRUCTION",
    "CodeForm",
    "InterpreterDemonstrator",
    "code_turn",
    "interpreter_environment",
    "python",
]

CodeForm = Literal["tool", "block"]
"""`tool`: a call of `python`. `block`: a turn that ends with `<code>…</code>` (ReTool)."""
INTERPRETER_INSTRUCTION = (
    "You may run Python code; names are kept from one piece of code to the next. End with a line 'answer: ' and the "
    "number."
)
"""For models that were not taught the form by a warm start."""


async def python(sandbox: Sandbox, code: str) -> ToolAnswer:
    """Run Python code; names are kept for later calls. Print what you want to see.

    Args:
        sandbox: of the episode
        code: the text of the program
    """
    return told_program(await sandbox.python(code))


def interpreter_environment(
    sandboxes: Sandboxes,
    *,
    limits: ToolLimits,
    form: CodeForm = "tool",
    system_prompt: str = "",
    demonstrate: DemonstrateFn | None = None,
) -> SandboxEnvironment:
    """Episodes with a Python session.

    Args:
        sandboxes: the pool that sessions are taken from; closed by whoever made it.
        limits: of an episode.
        form: how code is written.
        system_prompt: before the task's messages.
        demonstrate: for a warm start; it must write code in the same form.
    """
    return SandboxEnvironment(
        name="interpreter",
        tools=[sandbox_tool(python)],
        sandboxes=sandboxes,
        limits=limits,
        blocks=CodeBlocks() if form == "block" else None,
        system_prompt=system_prompt,
        demonstrate=demonstrate,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpreterDemonstrator:
    """A `DemonstrateFn` for tasks with `info.code`.

    A fixed share of the demonstrations runs the code and copies what it printed. The others answer directly: rightly in
    the first level, with a digit drawn at random beyond it. So a warm start teaches how code is
    written and how an answer is given; that running code pays is left to the reward.
    """

    code_share: float = 0.5
    """Share of the demonstrations that run code, whatever the task; chosen by seed and task id alone."""
    form: CodeForm = "tool"
    answer_form: str = "answer: {}"
    """How an answer is written; `{}` stands for the value."""

    def __post_init__(self) -> None:
        """Refuse a share or a form that means nothing."""
        if not 0 <= self.code_share <= 1 or self.answer_form.count("{}") != 1:
            raise EnvironmentSetupError(
                f"code_share={self.code_share} must be in 0..1 and answer_form={self.answer_form!r} needs one {{}}"
            )

    def __call__(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns shown for a task.

        Raises:
            EnvironmentSetupError: for a task without a program.
        """
        payload = payload_of(task)
        code = payload.text("code")
        if not code:
            raise EnvironmentSetupError(f"task {task.task_id} has no `info.code`; only such tasks can be demonstrated")
        chance = Random(seed_of(seed, "demonstration", task.task_id))
        if chance.random() < self.code_share:
            return (code_turn(code, self.form), self._answer(payload.answer))
        if payload.number("level", 1) <= 1:
            return (self._answer(payload.answer),)
        wrong = [digit for digit in "0123456789" if digit != payload.answer]
        return (self._answer(chance.choice(wrong)),)

    def _answer(self, value: str) -> DemonstratedTurn:
        return DemonstratedTurn(text=self.answer_form.replace("{}", value))


def code_turn(code: str, form: CodeForm) -> DemonstratedTurn:
    """A turn that runs code."""
    if form == "block":
        return DemonstratedTurn(text=CodeBlocks().write(code))
    request = ToolRequest(call_id="c0", tool=python.__name__, arguments=canonical_json({"code": code}))
    return DemonstratedTurn(text="", calls=(request,))
