"""What stands before an environment or a verifier changes nothing of what it says."""

import asyncio

import pytest

from rollwright.environments.passing import PassingEnvironment
from rollwright.recipes.drills.faulty_world import FaultyEnvironment, FaultyVerifier
from rollwright.recipes.drills.strikes import Strikes
from rollwright.recipes.worlds import load_world
from rollwright.record import Action, Environment, ToolRequest
from rollwright.rollout import FixedClock
from rollwright.runtime.breaker import Breaker, BreakerRules
from rollwright.runtime.guarded import GuardedEnvironment, GuardedVerifier
from rollwright.runtime.metered import MeteredEnvironment
from rollwright.runtime.timebook import TimeBook
from rollwright.tasks import SplitSizes
from rollwright.verifiers import AnswerRule, exact_verifier
from rollwright.verifiers.passing import PassingVerifier
from rollwright.verifiers.threads import ThreadedVerifier
from tests.verifiers.submissions import submitted, verdict_of


def breaker() -> Breaker:
    return Breaker("it", BreakerRules(), FixedClock(), lambda sentence: None)


def never() -> Strikes:
    """Not armed."""
    return Strikes(first=1)


ENVIRONMENTS = {
    "metered": lambda inner: MeteredEnvironment(inner, TimeBook(lambda: 0.0)),
    "guarded": lambda inner: GuardedEnvironment(inner, breaker()),
    "drilled": lambda inner: FaultyEnvironment(inner, "fails", never(), lambda: 0),
}
VERIFIERS = {
    "threaded": ThreadedVerifier,
    "guarded": lambda inner: GuardedVerifier(inner, breaker(), patience_s=1.0),
    "drilled": lambda inner: FaultyVerifier(inner, "raises", never(), lambda: 0),
}


@pytest.fixture(scope="module")
def grid():
    world = load_world("grid", {})
    yield world
    world.close()


async def lived(environment: Environment, task, reference) -> list[object]:
    """All that an episode says, with a snapshot in the middle that it goes on from."""
    said: list[object] = []
    snapshot = None
    turns = reference(task, 7)
    async with environment.open(task, seed=7) as episode:
        said += [dict(episode.tools), await episode.begin()]
        snapshot = await episode.snapshot()
    async with environment.open(task, seed=7, snapshot=snapshot) as episode:
        said.append(await episode.begin())
        for number, turn in enumerate(turns):
            requests = [
                ToolRequest(call_id=f"c{number}.{place}", tool=call.tool, arguments=call.arguments)
                for place, call in enumerate(turn.calls)
            ]
            results = tuple([await episode.call(request) for request in requests])
            said += [results, await episode.step(Action(actor="agent", turn=number, text=turn.text, calls=results))]
        said += [await episode.artifacts(), await episode.snapshot()]
    return said


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_before_another_says_what_that_one_says(grid, name: str) -> None:
    (stratum,) = grid.tasks(SplitSizes(train=1, held_out=0), 0)
    before = ENVIRONMENTS[name](grid.environment)
    assert isinstance(before, PassingEnvironment)
    assert (before.name, before.revision) == (grid.environment.name, grid.environment.revision)
    assert before.actors == grid.environment.actors
    alone, passed = (
        asyncio.run(lived(environment, stratum.train[0], grid.reference)) for environment in (grid.environment, before)
    )
    assert passed == alone


@pytest.mark.parametrize("name", VERIFIERS)
def test_a_verifier_before_another_says_what_that_one_says(name: str) -> None:
    inner = exact_verifier(AnswerRule())
    before = VERIFIERS[name](inner)
    assert isinstance(before, PassingVerifier)
    assert (before.name, before.revision, before.scope) == (inner.name, inner.revision, inner.scope)
    for text in ("answer: 4", "answer: 5", ""):
        assert verdict_of(before, submitted(text, "4")) == verdict_of(inner, submitted(text, "4"))
