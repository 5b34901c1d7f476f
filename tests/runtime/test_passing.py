"""What stands before an environment, a verifier or an engine changes nothing of what it says."""

import asyncio
from collections.abc import Callable

import pytest

from rollwright.engines import RecordingEngine, Reply, ScriptedEngine, replies_in_order
from rollwright.engines.passing import PassingEngine
from rollwright.environments.passing import PassingEnvironment
from rollwright.recipes.drills.faulty_engine import FaultyEngine
from rollwright.recipes.drills.faulty_world import FaultyEnvironment, FaultyVerifier
from rollwright.recipes.drills.strikes import Strikes
from rollwright.recipes.worlds import load_world
from rollwright.record import (
    Action,
    Engine,
    EngineLostError,
    Environment,
    GenerationRequest,
    Sampling,
    ScoreRequest,
    ToolRequest,
    WeightsManifest,
    ids,
)
from rollwright.rollout import FixedClock
from rollwright.runtime.breaker import Breaker, BreakerRules
from rollwright.runtime.guarded import GuardedEnvironment, GuardedVerifier
from rollwright.runtime.metered import MeteredEngine, MeteredEnvironment
from rollwright.runtime.pacing import GaugedEngine
from rollwright.runtime.schedule import Schedule, ScheduledEngine
from rollwright.runtime.timebook import TimeBook
from rollwright.tasks import SplitSizes
from rollwright.verifiers import AnswerRule, exact_verifier
from rollwright.verifiers.passing import PassingVerifier
from rollwright.verifiers.threads import ThreadedVerifier
from tests.engines.small import draw, request_of
from tests.verifiers.submissions import submitted, verdict_of


def breaker() -> Breaker:
    return Breaker("it", BreakerRules(), FixedClock(), lambda sentence: None)


def never() -> Strikes:
    """Not armed."""
    return Strikes(first=1)


def manifest(version: int) -> WeightsManifest:
    return WeightsManifest(
        policy="policy", version=version, update=version, kind="full", base_version=None, location="memory:", tensors=()
    )


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
ENGINES = {
    "metered": lambda inner: MeteredEngine(inner, TimeBook(lambda: 0.0)),
    "gauged": GaugedEngine,
    "recorded": RecordingEngine,
    "scheduled": lambda inner: ScheduledEngine(inner, Schedule(turns={}), version=0),
    "drilled": lambda inner: FaultyEngine(inner, "dies", never()),
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


async def served(make: Callable[[Engine], Engine]) -> list[object]:
    """All that an engine says from its first turn to its end, and what the one behind was asked."""
    taken_up = asyncio.Event()

    def reply(request: GenerationRequest) -> Reply:
        if request.request_id == "r1":
            return Reply(token_ids=[3, 4, 0])
        taken_up.set()
        return Reply(token_ids=[5] * 4, delay_s=60.0)

    inner = ScriptedEngine(reply)
    engine = make(inner)
    said: list[object] = [engine.capabilities, (await draw(engine, request_of(1))).token_ids]
    await engine.load_weights(manifest(3), "continue")
    await engine.pause()
    async with asyncio.TaskGroup() as group:
        turn = group.create_task(draw(engine, request_of(2)), name="a turn")
        await taken_up.wait()
        await engine.resume()
        await engine.cancel(request_of(2).request_id)
    said += [turn.result().token_ids, turn.result().finish]
    scored = ScoreRequest(policy="policy", token_ids=ids([1, 2]), score_from=1, sampling=Sampling(), tensors={})
    scores = await engine.score(scored)
    said += [scores.logprobs.tolist(), scores.policy_version]
    await engine.release("a session")
    await engine.close()
    with pytest.raises(EngineLostError):
        await draw(engine, request_of(3))
    return [*said, inner.released, len(inner.requests)]


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_before_another_says_what_that_one_says(name: str) -> None:
    assert isinstance(ENGINES[name](ScriptedEngine(replies_in_order([]))), PassingEngine)
    alone, passed = (asyncio.run(served(make)) for make in (lambda inner: inner, ENGINES[name]))
    assert passed == alone
