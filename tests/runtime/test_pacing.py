"""Fewer episodes run at once where their contexts are more than the engine holds, and more again where they are not."""

import asyncio
from typing import Any

import pytest

from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.runtime.errors import RuntimeRunError
from rollwright.runtime.pacing import GaugedEngine, Pace, PaceRule
from rollwright.runtime.parts import Attempt
from tests.engines.small import collect, request_of, small_model
from tests.runtime.fakes import task

TINY = {"head_dim": 16, "hidden_size": 32, "intermediate_size": 48}
SLOTS = 4


def attempt_of(number: int) -> Attempt:
    return Attempt(purpose="train", stage="rl", group_id=number, slot=0, attempt=0, task=task(0))


class Episodes:
    """Each opens its contexts at once and draws a turn in each; what the pace allowed then is kept."""

    def __init__(self, engine: GaugedEngine, pace: Pace) -> None:
        self.engine, self.pace = engine, pace
        self.contexts = 1
        self.limits: list[int] = []
        self.most_running = 0

    async def run(self, attempt: Attempt) -> None:
        contexts = [f"{attempt.group_id}/{number}" for number in range(self.contexts)]
        self.most_running = max(self.most_running, self.pace.running)
        async with asyncio.TaskGroup() as turns:
            for number, session in enumerate(contexts):
                request = request_of(
                    attempt.group_id, (1, 2, 3), request_id=f"r{session}", session=session, context=number, max_tokens=3
                )
                turns.create_task(collect(self.engine.generate(request)))
        for session in contexts:
            await self.engine.release(session)
        self.limits.append(self.pace.limit)


async def paced(body) -> Any:
    settings = EmbeddedSettings(num_slots=SLOTS, max_context_tokens=32, mode="fast", evict_after_s=0.0)
    engine = GaugedEngine(open_engine(small_model("qwen3", **TINY), settings, lambda manifest: {}))
    try:
        async with asyncio.timeout(120):
            return await body(engine)
    finally:
        await engine.close()


@pytest.mark.row("S258")
def test_the_number_of_episodes_rises_with_room_and_falls_with_queue_and_open_contexts_and_stays_within_its_limits():
    async def body(engine):
        pace = Pace(PaceRule(least=1, most=SLOTS), engine)
        episodes = Episodes(engine, pace)
        run = pace.over(episodes.run)
        phases = []
        for contexts in (1, 3, 1):
            episodes.contexts, episodes.limits, episodes.most_running = contexts, [], 0
            first = 100 * len(phases)
            async with asyncio.TaskGroup() as group:
                for number in range(60):
                    group.create_task(run(attempt_of(first + number)))
            phases.append((episodes.limits, episodes.most_running))
            assert pace.running == 0
        return phases

    alone, crowded, again = asyncio.run(paced(body))
    assert set(alone[0]) == {SLOTS} and alone[1] == SLOTS
    # Three contexts each: two episodes at once are more than the four slots hold.
    assert min(crowded[0]) == 1 and max(crowded[0][20:50]) <= 2
    assert again[0][0] < SLOTS and again[0][-1] == SLOTS
    assert all(most <= SLOTS for _, most in (alone, crowded, again))
    assert all(1 <= limit <= SLOTS for limits, _ in (alone, crowded, again) for limit in limits)


def test_an_attempt_that_is_cancelled_while_it_waits_takes_no_place():
    async def body(engine):
        pace = Pace(PaceRule(least=1, most=1), engine)
        gate = asyncio.Event()

        async def opens(attempt):
            return await gate.wait()

        run = pace.over(opens)
        first, second, third = (asyncio.create_task(run(attempt_of(number))) for number in range(3))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        assert pace.running == 1 and not third.done()
        gate.set()
        assert await first and await third and second.cancelled()
        return pace.running

    assert asyncio.run(paced(body)) == 0


@pytest.mark.parametrize(("least", "most"), [(0, 4), (5, 4)])
def test_limits_that_let_nothing_run_are_refused(least, most):
    with pytest.raises(RuntimeRunError, match="episodes are to run at once"):
        PaceRule(least=least, most=most)
