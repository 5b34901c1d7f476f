"""Three sources in one world: two jobs with letters that need no tool, and numbers that need one.

Whatever is trained on, the held-out tasks are those of all three: the first stratum carries them all, so that a run on
one source is measured on the same list as a run on three.
"""

from dataclasses import replace
from random import Random

from rollwright.environments import DemonstratedTurn, EnvironmentSetupError, ToolEnvironment, ToolLimits
from rollwright.recipes.ladder.worlds.letters import ALPHABET, letters_strata, show_letters
from rollwright.recipes.ladder.worlds.letters import second_verifier as letters_verifier
from rollwright.recipes.ladder.worlds.one_tool import claiming_calculator, one_tool_strata, show_call
from rollwright.recipes.worlds import World
from rollwright.record import Submission, Task, digest, seed_of
from rollwright.tasks import SplitSizes, Stratum, payload_of
from rollwright.verifiers import (
    AnswerRule,
    FunctionVerifier,
    Grade,
    NumericRule,
    Part,
    exact_verifier,
    format_verifier,
    numeric_verifier,
)

__all__ = ["SOURCES", "load", "second_verifier"]

SOURCES = ("letters_sort", "letters_reverse", "one_tool_useful")
_NUMBERS = SOURCES[-1]


def load(*, sources: str = ",".join(SOURCES), right_share: float = 0.5) -> World:
    """Letters to sort and to reverse, and numbers to work out with a calculator.

    Args:
        sources: that are trained on, with commas between them; what is held out is of all three.
        right_share: of the demonstrations of each source that are right.
    """
    rule = AnswerRule()
    trained = [name.strip() for name in sources.split(",")]
    if unknown := [name for name in trained if name not in SOURCES]:
        raise EnvironmentSetupError(f"there is no source {unknown[0]!r}; there are {', '.join(SOURCES)}")

    def demonstrate(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        return _shown(task, seed, right_share)

    return World(
        environment=ToolEnvironment(
            name="mixed",
            tools=[claiming_calculator()],
            limits=ToolLimits(calls=3, result_characters=80),
            demonstrate=demonstrate,
        ),
        tasks=lambda sizes, seed: _strata(sizes, seed, trained),
        parts=(
            Part(verifier=exact_verifier(rule)),
            Part(verifier=format_verifier(rule), weight=0.0, role="shaping"),
        ),
        reference=lambda task, seed: _shown(task, seed, 1.0),
        attacks={"every letter": _every_letter},
        spoken=(" ".join(ALPHABET), "answer: 0123456789"),
    )


def second_verifier() -> FunctionVerifier:
    """The checker of letters for letters; for numbers, whether the answer is the same number."""
    letters = letters_verifier()
    numbers = numeric_verifier(AnswerRule(), NumericRule())

    def grade(submission: Submission) -> Grade:
        return (numbers if submission.task.source == _NUMBERS else letters).grade(submission)

    return FunctionVerifier(
        name="mixed_in_order", revision=digest([letters.revision, numbers.revision])[:16], grade=grade
    )


def _strata(sizes: SplitSizes, seed: int, trained: list[str]) -> tuple[Stratum, ...]:
    part = SplitSizes(train=max(2, sizes.train // 3), held_out=sizes.held_out // 3)
    both = SplitSizes(train=2 * part.train, held_out=2 * part.held_out)
    four = SplitSizes(train=4 * part.train, held_out=4 * part.held_out)
    known = {one.name: one for one in (*letters_strata(both, seed, jobs="sort,reverse"), *one_tool_strata(four, seed))}
    held_out = tuple(task for name in SOURCES for task in known[name].held_out)
    return tuple(replace(known[name], held_out=held_out if place == 0 else ()) for place, name in enumerate(trained))


def _shown(task: Task, seed: int, right_share: float) -> tuple[DemonstratedTurn, ...]:
    if task.source != _NUMBERS:
        return show_letters(task, seed, right_share=right_share, ramble_share=0.0)
    return show_call(task, Random(seed_of(seed, "mixed", task.task_id)), tool_share=right_share, read_share=1.0)


def _every_letter(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text=f"answer: {payload_of(task).messages[-1].text}"),)
