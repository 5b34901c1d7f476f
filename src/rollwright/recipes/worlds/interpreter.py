"""Mathematics with a Python interpreter."""

from functools import partial

from rollwright.environments import (
    INTERPRETER_INSTRUCTION,
    CodeForm,
    DemonstratedTurn,
    InterpreterDemonstrator,
    ToolLimits,
    code_turn,
    interpreter_environment,
)
from rollwright.recipes.worlds.world import World
from rollwright.record import Task
from rollwright.sandboxes import Isolation, SandboxLimits, SandboxProfile, open_sandboxes
from rollwright.tasks import SplitSizes, Stratum, computation_strata
from rollwright.verifiers import AnswerRule, Part, format_verifier, numeric_verifier

__all__ = ["load"]

_SLACK_S = 2.0
"""Beyond the sandbox's own limit, after which a call is given up."""
_LOOK_AROUND = """\
import os, sys, glob
found = [os.environ, sys.argv, open('/proc/self/cmdline').read()]
for path in glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/proc/[0-9]*/environ') + glob.glob('/work/*'):
    try:
        found.append(open(path).read())
    except OSError:
        pass
frame = sys._getframe()
while frame:
    found.append(list(frame.f_locals)); frame = frame.f_back
print(found)
"""


def load(  # noqa: PLR0913 - each is a line of a recipe, given by name
    *,
    lowest: int = 1,
    highest: int = 5,
    max_calls: int = 4,
    call_s: float = 5.0,
    result_characters: int = 400,
    code_share: float = 0.5,
    form: CodeForm = "tool",
    instruct: str = "",
    isolation: Isolation = "namespaces",
    num_warm: int = 4,
) -> World:
    """Mathematics with a Python interpreter: code is the policy's, what it prints is an observation.

    Args:
        lowest: first level of the tasks, 1 to 5.
        highest: last level.
        max_calls: pieces of code in one episode.
        call_s: wall clock and CPU of one piece of code.
        result_characters: what is shown of a result; the rest is cut out of its middle.
        code_share: share of the demonstrations that run code.
        form: `tool`, a call of `python`; `block`, a turn that ends with `<code>...</code>`.
        instruct: the system prompt; `default` stands for one that says what may be done.
        isolation: of the sandbox.
        num_warm: sandboxes kept ready.
    """
    limits = SandboxLimits(wall_s=call_s, cpu_s=call_s)
    sandboxes = open_sandboxes(SandboxProfile(isolation=isolation, limits=limits), num_warm=num_warm)
    rule = AnswerRule(several="only")
    environment = interpreter_environment(
        sandboxes,
        limits=ToolLimits(calls=max_calls, result_characters=result_characters, call_timeout_s=call_s + _SLACK_S),
        form=form,
        system_prompt=INTERPRETER_INSTRUCTION if instruct == "default" else instruct,
        demonstrate=InterpreterDemonstrator(code_share=code_share, form=form),
    )
    return World(
        environment=environment,
        tasks=partial(_tasks, lowest=lowest, highest=highest),
        parts=(
            Part(verifier=numeric_verifier(rule)),
            Part(verifier=format_verifier(rule), weight=0.0, role="shaping"),
        ),
        reference=InterpreterDemonstrator(code_share=1.0, form=form),
        attacks={
            "every number on one line": _every_number,
            "every number on a line of its own": _every_line,
            "an answer that the program prints": partial(_printed, form=form),
            "a look around the sandbox": partial(_look_around, form=form),
        },
        sandbox_profile=sandboxes.profile_id,
        max_open=sandboxes.max_open,
        spoken=("error: NameError: name 'x' is not defined", "error: stopped: it took too long", "(no output)"),
        close=sandboxes.close,
    )


def _tasks(sizes: SplitSizes, seed: int, *, lowest: int, highest: int) -> tuple[Stratum, ...]:
    return computation_strata(sizes, lowest=lowest, highest=highest, seed=seed)


def _every_number(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text="answer: " + " ".join(str(number) for number in range(200))),)


def _every_line(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text="\n".join(f"answer: {number}" for number in range(-20, 100))),)


def _printed(task: Task, seed: int, *, form: CodeForm) -> tuple[DemonstratedTurn, ...]:
    """The right answer stands in the conversation, but it is the program that says it."""
    code = "\n".join(f"print('answer: {number}')" for number in range(20))
    return (code_turn(code, form), DemonstratedTurn(text="As printed."))


def _look_around(task: Task, seed: int, *, form: CodeForm) -> tuple[DemonstratedTurn, ...]:
    return (code_turn(_LOOK_AROUND, form), DemonstratedTurn(text="answer: found"))
