"""Every environment that stops a policy by itself says where."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext

import pytest

from rollwright.environments import (
    GameRules,
    GridGame,
    GuardedEnvironment,
    Invariant,
    LimitedEnvironment,
    LockstepEnvironment,
    ResetStepEnvironment,
    ResetStepRules,
    SearchLimits,
    TagSearchEnvironment,
    TextGameEnvironment,
    ToolEnvironment,
    ToolLimits,
    open_index,
)
from rollwright.environments.adapters import AdaptedEnvironment, GameLimits
from rollwright.record import Environment
from rollwright.tasks import corpus_of, invented_facts

LIMITS = ToolLimits(calls=3, result_characters=100, argument_characters=200, call_timeout_s=4.0)
OF_TOOLS = {"calls": 3, "result_characters": 100, "argument_characters": 200, "call_timeout_s": 4.0}


def no_game(*_: object):
    """A game that nobody begins."""
    raise AssertionError("a limit was asked for, not a game")


def tools() -> ToolEnvironment:
    return ToolEnvironment(tools=[], limits=LIMITS)


DECLARED: dict[str, tuple[Callable[[], Environment], Mapping[str, float]]] = {
    "tools": (tools, OF_TOOLS),
    "commands of a game": (lambda: TextGameEnvironment(GridGame(), rules=GameRules(turns=7)), {"turns": 7}),
    "reset and step": (
        lambda: ResetStepEnvironment(
            no_game, name="game", revision="1", rules=ResetStepRules(turns=9, observation_characters=50)
        ),
        {"turns": 9, "observation_characters": 50},
    ),
    "search by tags": (
        lambda: TagSearchEnvironment(
            open_index(corpus_of(invented_facts(people=3))), limits=SearchLimits(searches=2, information_characters=300)
        ),
        {"searches": 2, "information_characters": 300},
    ),
    "someone else's": (
        lambda: AdaptedEnvironment(
            name="game",
            settings={},
            start=lambda task, seed: nullcontext(no_game()),
            limits=GameLimits(message_characters=60, call_timeout_s=5.0, success_threshold=0.5),
        ),
        {"message_characters": 60, "call_timeout_s": 5.0},
    ),
    "in lock-step": (lambda: LockstepEnvironment(tools(), ()), OF_TOOLS),
    # A call that a rule refuses reaches nobody who counts it, so the number of calls is not promised.
    "guarded": (
        lambda: GuardedEnvironment(tools(), [Invariant(name="none", says="no", holds=lambda moment: False)]),
        {name: value for name, value in OF_TOOLS.items() if name != "calls"},
    ),
}


@pytest.mark.parametrize(("make", "declared"), DECLARED.values(), ids=DECLARED)
def test_limits_are_declared_as_they_were_given(make: Callable[[], Environment], declared: Mapping[str, float]) -> None:
    environment = make()
    assert isinstance(environment, LimitedEnvironment)
    assert dict(environment.limits) == declared
