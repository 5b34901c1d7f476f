import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from rollwright.record import (
    Capabilities,
    Chunk,
    Engine,
    EngineLostError,
    GenerationRequest,
    Sampling,
    ScoreRequest,
    Scores,
    Swap,
    WeightsManifest,
    ids,
    logprobs,
)
from rollwright.rollout import SystemClock
from rollwright.runtime.errors import NoProgressError
from rollwright.runtime.own_thread import OwnThread
from rollwright.runtime.restarting import RestartingEngine, RestartRules
from rollwright.runtime.watchdog import Watchdog, WatchRules


class Mortal:
    """An engine that draws one token of its version, or does what it is told to do instead."""

    def __init__(self, version: int, fate: str = "") -> None:
        self.version = version
        self.fate = fate
        self.loaded: list[int] = []
        self.is_closed = False
        self.is_paused = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            has_sampled_distribution=True,
            has_version_per_token=True,
            is_deterministic=True,
            swaps=frozenset({"drain"}),
            tensors=frozenset(),
            max_context_tokens=64,
            num_slots=4,
        )

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        await self._live()
        yield Chunk(
            token_ids=ids([self.version]),
            behavior_logprobs=logprobs([-0.5]),
            policy_version=self.version,
            cache_version=self.version,
            tensors={},
            finish="length",
        )

    async def score(self, request: ScoreRequest) -> Scores:
        await self._live()
        return Scores(logprobs=logprobs([]), policy_version=self.version, tensors={})

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        if self.fate == "dies loading":
            raise EngineLostError("the engine died while loading")
        if self.fate == "refuses" or (self.fate == "refuses old ones" and weights.version < 2):
            raise ValueError("other numbers than the digest says")
        self.loaded.append(weights.version)
        if self.fate != "stale":
            self.version = weights.version

    async def cancel(self, request_id: str) -> None: ...

    async def release(self, session: str) -> None: ...

    async def pause(self) -> None:
        self.is_paused = True

    async def resume(self) -> None:
        self.is_paused = False

    async def close(self) -> None:
        self.is_closed = True

    async def _live(self) -> None:
        if self.fate == "dies":
            raise EngineLostError("the engine died")
        if self.fate == "hangs" or self.is_paused:
            await asyncio.Event().wait()


REQUEST = GenerationRequest(
    request_id="t000000-00-0/t0",
    policy="policy",
    session="t000000-00-0/0",
    context=0,
    share="",
    token_ids=ids([1]),
    sampling=Sampling(),
    max_tokens=1,
    deadline_s=60.0,
    seed=0,
    stop_token_ids=frozenset(),
)
SCORED = ScoreRequest(policy="policy", token_ids=ids([1, 2]), score_from=1, sampling=Sampling(), tensors={})
FAST = RestartRules(silent_s=0.05, first_wait_s=0.0, weights_wait_s=0.05, in_a_row=3)


def manifest(version: int) -> WeightsManifest:
    return WeightsManifest(
        policy="policy", version=version, update=version, kind="full", base_version=None, location="memory:", tensors=()
    )


class House:
    """Opens mortal engines with the fates given, and remembers all."""

    def __init__(self, *fates: str, rules: RestartRules = FAST) -> None:
        self.fates = list(fates)
        self.said: list[str] = []
        self.watchdog = Watchdog(WatchRules(look_s=0.01), SystemClock(), self.said.append)
        self.engines: list[Mortal] = []
        self.engine = RestartingEngine(self.open(0), self.open, rules, self.watchdog)

    def open(self, version: int) -> Mortal:
        fate = self.fates.pop(0) if self.fates else ""
        if fate == "does not open":
            raise OSError("no memory")
        self.engines.append(Mortal(version, fate))
        return self.engines[-1]


async def turn(house: House, request: GenerationRequest = REQUEST) -> list[int]:
    return [int(t) async for chunk in house.engine.generate(request) for t in chunk.token_ids]


async def lost(house: House) -> str:
    with pytest.raises(EngineLostError) as raised:
        await turn(house)
    return str(raised.value)


def run(going) -> None:
    asyncio.run(asyncio.wait_for(going, 30))


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts the timers that are set."""

    num_timers = 0

    def call_at(self, *args, **kwargs):
        self.num_timers += 1
        return super().call_at(*args, **kwargs)


@pytest.mark.parametrize("num_turns", [1, 64])
def test_timers_do_not_grow_with_the_turns_that_wait(num_turns):
    house = House(rules=replace(FAST, silent_s=60.0))

    async def all_turns() -> None:
        requests = [replace(REQUEST, request_id=f"t{slot:06}") for slot in range(num_turns)]
        async with asyncio.TaskGroup() as group:
            for request in requests:
                group.create_task(turn(house, request), name=request.request_id)

    loop = CountingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(all_turns())
        assert loop.num_timers <= 1


@pytest.mark.parametrize(
    ("fate", "cause"),
    [("dies", "the engine died"), ("hangs", "no sign of it for 0.05 s, though something was asked of it")],
)
def test_a_lost_engine_is_made_again_with_the_last_published_weights(fate, cause):
    async def go() -> None:
        house = House()
        await house.engine.load_weights(manifest(3), "drain")
        house.engines[0].fate = fate
        assert await lost(house) == cause
        assert await turn(house) == [3]
        assert [engine.loaded for engine in house.engines] == [[3], [3]]
        assert house.engines[0].is_closed == (fate == "dies")
        assert house.said == [f"engine was made again, for the 1st time: {cause}"]
        await house.engine.load_weights(manifest(4), "drain")
        assert await turn(house) == [4]
        await house.engine.close()
        assert house.engines[1].is_closed

    run(go())


def test_all_requests_of_a_lost_engine_end_and_one_engine_takes_its_place():
    async def go() -> None:
        house = House("hangs")
        async with asyncio.TaskGroup() as group:
            ended = [group.create_task(lost(house)) for _ in range(8)]
        assert {task.result() for task in ended} == {"no sign of it for 0.05 s, though something was asked of it"}
        async with asyncio.TaskGroup() as group:
            turns = [group.create_task(turn(house)) for _ in range(8)]
        assert [task.result() for task in turns] == [[0]] * 8
        assert len(house.engines) == 2

    run(go())


def test_an_engine_that_keeps_old_weights_is_found_by_its_first_token():
    async def go() -> None:
        house = House()
        await house.engine.load_weights(manifest(1), "drain")
        house.engines[0].fate = "stale"
        await house.engine.load_weights(manifest(2), "drain")
        assert await lost(house) == "it draws from version 1 where 2 was loaded before the request"
        assert await turn(house) == [2]

    run(go())


def test_a_turn_that_began_before_the_weights_changed_may_end_with_the_old_ones():
    async def go() -> None:
        house = House()
        stream = house.engine.generate(REQUEST)
        first = anext(stream)
        chunk = await first
        await house.engine.load_weights(manifest(1), "drain")
        assert chunk.policy_version == 0
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert len(house.engines) == 1

    run(go())


def test_weights_are_published_to_the_new_engine_where_the_old_one_dies_over_them():
    async def go() -> None:
        house = House("dies loading")
        await house.engine.load_weights(manifest(1), "drain")
        assert await turn(house) == [1]

    run(go())


def test_an_engine_that_is_lost_over_new_weights_is_never_asked_for_old_ones_that_are_gone():
    async def go() -> None:
        house = House()
        await house.engine.load_weights(manifest(1), "drain")
        house.engines[0].fate = "dies loading"
        await house.engine.load_weights(manifest(2), "drain")
        assert await turn(house) == [2]
        assert house.engines[1].loaded == [2]

    run(go())


def test_refused_weights_leave_the_old_version_serving():
    async def go() -> None:
        house = House()
        await house.engine.load_weights(manifest(1), "drain")
        house.engines[0].fate = "refuses"
        with pytest.raises(ValueError, match="other numbers"):
            await house.engine.load_weights(manifest(2), "drain")
        assert await turn(house) == [1]
        assert len(house.engines) == 1

    run(go())


def test_scores_are_asked_again_of_the_new_engine_where_the_old_one_dies_over_them():
    house = House("dies")

    async def run() -> int:
        await house.engine.load_weights(manifest(3), "drain")
        return (await house.engine.score(SCORED)).policy_version

    assert asyncio.run(run()) == 3
    assert house.engines[1].loaded == [3]


def test_scores_that_no_engine_lives_to_give_end_with_a_diagnosis():
    house = House("dies", "dies", "dies", "dies")
    with pytest.raises(EngineLostError, match="3 engines in a row"):
        asyncio.run(house.engine.score(SCORED))


def test_an_engine_that_refuses_the_serving_weights_never_serves():
    async def go() -> None:
        house = House("", "refuses", "does not open", "")
        await house.engine.load_weights(manifest(1), "drain")
        house.engines[0].fate = "dies"
        await lost(house)
        assert await turn(house) == [1]
        assert house.engines[1].loaded == [] and house.engines[1].is_closed

    run(go())


def test_an_engine_that_serves_other_weights_than_it_was_given_never_serves():
    async def go() -> None:
        house = House("", "spoils", "")
        asked: list[int] = []

        async def fault_of(engine: Engine, version: int) -> str | None:
            assert isinstance(engine, Mortal)
            asked.append(version)
            return "a head of old weights" if engine.fate == "spoils" else None

        house.engine.try_each(fault_of)
        await house.engine.load_weights(manifest(1), "drain")
        house.engines[0].fate = "dies"
        await lost(house)
        assert await turn(house) == [1]
        assert asked == [1, 1]
        assert len(house.engines) == 3 and house.engines[1].is_closed
        assert "a head of old weights" in house.watchdog.diagnosis()

    run(go())


def test_where_the_last_publication_is_gone_another_engine_waits_for_the_next():
    async def go() -> None:
        house = House("", "refuses old ones", rules=replace(FAST, weights_wait_s=60.0))
        await house.engine.load_weights(manifest(1), "drain")
        house.engines[0].fate = "dies"
        await lost(house)
        waiting = asyncio.ensure_future(turn(house))
        while "learner owes weights for another engine" not in house.watchdog.diagnosis():  # noqa: ASYNC110 - its words are waited for
            await asyncio.sleep(0.001)
        await house.engine.load_weights(manifest(2), "drain")
        assert await waiting == [2]
        assert len(house.engines) == 2

    run(go())


def test_too_many_deaths_in_a_row_end_the_run_with_a_diagnosis():
    async def go() -> None:
        house = House("dies", "dies", "dies", "dies", "dies")
        for _ in range(4):
            await lost(house)
        sentence = "3 engines in a row were lost without a finished turn; the last: the engine died"
        assert await lost(house) == sentence
        with pytest.raises(NoProgressError, match=sentence):
            house.watchdog.look()

    run(go())


def test_a_finished_turn_starts_the_count_anew():
    async def go() -> None:
        house = House()
        for _ in range(10):
            house.engines[-1].fate = "dies"
            await lost(house)
            assert await turn(house) == [0]

    run(go())


def test_restarts_in_a_row_wait_longer_and_longer():
    rules = RestartRules(first_wait_s=1, factor=2, longest_wait_s=5)
    assert [rules.wait_s(n) for n in range(6)] == [0, 1, 2, 4, 5, 5]
    with pytest.raises(ValueError, match="in_a_row at least 1"):
        RestartRules(in_a_row=0)


def test_a_paused_engine_is_silent_by_order():
    async def go() -> None:
        house = House()
        await house.engine.pause()
        waiting = asyncio.ensure_future(turn(house))
        await asyncio.sleep(0.2)
        assert not waiting.done() and len(house.engines) == 1
        waiting.cancel()
        await asyncio.wait({waiting})

    run(go())


def test_the_deadline_of_a_request_counts_from_its_call():
    async def go() -> None:
        house = House("dies", "", rules=replace(FAST, first_wait_s=0.1))
        await lost(house)
        seen: list[float] = []
        engine = house.engine
        assert await turn(house) == [0]
        original = house.engines[1].generate

        def noting(request: GenerationRequest) -> AsyncIterator[Chunk]:
            seen.append(request.deadline_s)
            return original(request)

        house.engines[1].generate = noting
        stream = engine.generate(replace(REQUEST, deadline_s=5.0))
        await asyncio.sleep(0)
        async for _ in stream:
            pass
        assert 0 < seen[0] <= 5.0

    run(go())


def test_a_caller_that_leaves_while_an_engine_opens_leaves_it_to_the_next():
    async def go() -> None:
        house = House("dies")
        await lost(house)
        door, opened = threading.Event(), house.engine._reopen

        def slow(version: int) -> Engine:
            door.wait(10)
            return opened(version)

        house.engine._reopen = slow
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await turn(house)
        door.set()
        assert await turn(house) == [0]
        assert len(house.engines) == 2

    run(go())


def test_a_thread_that_hangs_is_left_behind():
    door, begun = threading.Event(), threading.Event()

    def hang() -> bool:
        begun.set()
        return door.wait(60)

    thread = OwnThread("learner", leave_s=0.05)
    with thread:
        assert thread.submit(lambda: 41 + 1).result(10) == 42
        hung = thread.submit(hang)
        assert begun.wait(10)
        behind = thread.submit(lambda: 1)
        thread.shutdown(wait=False, cancel_futures=True)
    assert thread.is_left_behind and not hung.done() and behind.cancelled()
    with pytest.raises(RuntimeError, match="no calls after its shutdown"):
        thread.submit(lambda: 1)
    door.set()
    assert hung.result(10)
    end = time.monotonic() + 10
    while thread.is_left_behind and time.monotonic() < end:
        time.sleep(0.001)
    assert not thread.is_left_behind


def test_what_a_call_raises_reaches_its_caller():
    with OwnThread("learner") as thread, pytest.raises(ZeroDivisionError):
        thread.submit(lambda: 1 // 0).result(10)
