"""Arithmetic with a calculator."""

from rollwright.environments import (
    ArithmeticDemonstrator,
    DemonstratedTurn,
    ToolEnvironment,
    ToolLimits,
    calculator_tool,
)
from rollwright.recipes.worlds.world import World
from rollwright.record import Task
from rollwright.tasks import ArithmeticShares, SplitSizes, Stratum, arithmetic_strata, payload_of
from rollwright.verifiers import AnswerRule, Part, exact_verifier, format_verifier

__all__ = ["load"]


def load(*, max_calls: int = 3) -> World:
    """The world of the default recipe."""
    rule = AnswerRule()
    return World(
        environment=ToolEnvironment(
            tools=[calculator_tool()],
            limits=ToolLimits(calls=max_calls),
            demonstrate=ArithmeticDemonstrator(tool_share=0.5),
        ),
        tasks=_tasks,
        parts=(
            Part(verifier=exact_verifier(rule)),
            Part(verifier=format_verifier(rule), weight=0.0, role="shaping"),
        ),
        reference=ArithmeticDemonstrator(tool_share=1.0),
        attacks={"every digit": _every_digit, "the question": _the_question},
    )


def _tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
    return arithmetic_strata(sizes, shares=ArithmeticShares(easy=0.2, hard=0.65, error=0.15), seed=seed)


def _every_digit(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text="answer: " + " ".join(str(number) for number in range(200))),)


def _the_question(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text=f"answer: {payload_of(task).text('expression')}"),)
