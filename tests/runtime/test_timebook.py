"""Where the time of a run goes: each second of a part is in one state, and the part at work is named."""

import asyncio
import time
from collections.abc import AsyncGenerator

import pytest

from rollwright.engines import ScriptedEngine
from rollwright.rollout import FixedClock
from rollwright.runtime.metered import MeteredEngine
from rollwright.runtime.timebook import PARTS, TimeBook
from tests.engines.small import request_of


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def book(clock) -> TimeBook:
    return TimeBook(clock.monotonic)


def test_each_second_of_each_part_is_in_exactly_one_state(book, clock):
    with book.doing("learner"):
        clock.advance(2)
    with book.doing("engine"):
        clock.advance(3)
        with book.doing("environment"), book.doing("engine"):
            clock.advance(1)
    with book.doing("engine", "syncing"), book.doing("learner", "syncing"):
        clock.advance(0.5)
    seconds = book.take().seconds
    assert seconds == {
        ("engine", "blocked"): 2.0,
        ("engine", "busy"): 4.0,
        ("engine", "syncing"): 0.5,
        ("environment", "blocked"): 2.5,
        ("environment", "busy"): 1.0,
        ("environment", "starved"): 3.0,
        ("learner", "busy"): 2.0,
        ("learner", "starved"): 4.0,
        ("learner", "syncing"): 0.5,
        ("loop", "starved"): 6.5,
        ("verifiers", "blocked"): 2.5,
        ("verifiers", "starved"): 4.0,
    }
    for part in PARTS:
        assert sum(s for (of, _), s in seconds.items() if of == part) == 6.5


def test_the_bottleneck_is_the_part_that_worked_longest_and_each_look_begins_anew(book, clock):
    with book.doing("environment"):
        clock.advance(3)
    with book.doing("learner"):
        clock.advance(2)
    assert book.take().bottleneck == "environment"
    with book.doing("learner", "blocked"):
        clock.advance(9)
    assert book.take().bottleneck is None
    assert book.take().seconds == {}


def test_the_loop_is_busy_while_its_thread_has_a_processor_and_what_no_part_did_is_unattributed(clock):
    worked = FixedClock()
    book = TimeBook(clock.monotonic, worked.monotonic)
    book.take()

    def pass_time(wall_s: float, busy_s: float) -> None:
        clock.advance(wall_s)
        worked.advance(busy_s)

    pass_time(2, 0.5)
    with book.doing("engine"):
        pass_time(3, 1)
    with book.doing("learner", "blocked"):
        pass_time(1, 0.25)
    times = book.take()
    assert times.seconds["loop", "busy"] == 1.75
    assert times.seconds["loop", "starved"] == 2.0
    assert times.seconds["loop", "blocked"] == 2.25
    assert times.unattributed_s == 1.5 and times.wall_s == 6.0
    assert book.take().unattributed_s == 0.0


def test_the_loop_is_the_bottleneck_where_its_own_work_takes_longest(clock):
    book = TimeBook(clock.monotonic, clock.monotonic)
    book.take()
    with book.doing("engine"):
        clock.advance(1)
    clock.advance(1)
    assert book.take().bottleneck == "loop"


def test_what_is_asked_of_a_part_twice_at_once_looks_at_the_clock_once():
    looks: list[float] = []

    def counted() -> float:
        looks.append(0.0)
        return 0.0

    book = TimeBook(counted)
    with book.doing("engine"):
        before = len(looks)
        for _ in range(100):
            with book.doing("engine"):
                pass
        assert len(looks) == before


def test_the_states_of_each_part_add_up_to_the_wall_of_a_busy_loop():
    looks: list[float] = []

    def look() -> float:
        looks.append(time.monotonic())
        return looks[-1]

    book = TimeBook(look, time.thread_time)

    async def ask(slot: int) -> None:
        with book.doing("engine"):
            await asyncio.sleep(0.001 * (slot % 5))
        with book.doing("environment"):
            sum(range(20_000))
        with book.doing("verifiers"):
            await asyncio.to_thread(sum, range(20_000))

    async def step() -> None:
        async with asyncio.TaskGroup() as group:
            for slot in range(32):
                group.create_task(ask(slot), name=str(slot))
        with book.doing("learner"):
            await asyncio.to_thread(sum, range(500_000))

    book.take()
    began = looks[-1]
    asyncio.run(step())
    times = book.take()
    wall = looks[-1] - began
    for part in PARTS:
        assert sum(s for (of, _), s in times.seconds.items() if of == part) == pytest.approx(wall, rel=0.01)
    assert times.seconds["loop", "busy"] > 0
    assert 0 <= times.unattributed_s <= wall


def test_a_learner_that_waits_for_the_disk_is_blocked_and_one_that_waits_for_a_batch_is_starved(book, clock):
    with book.doing("learner", "blocked"):
        clock.advance(1)
    clock.advance(2)
    seconds = book.take().seconds
    assert (seconds["learner", "blocked"], seconds["learner", "starved"]) == (1.0, 2.0)


def test_an_engine_is_busy_from_a_request_to_its_last_chunk_also_where_it_is_left_early(book, clock):
    engine = MeteredEngine(ScriptedEngine(lambda asked: [5, 6, 7]), book)

    async def draw() -> None:
        async for _ in engine.generate(request_of(1, chunk_tokens=1)):
            clock.advance(1)
        stream = engine.generate(request_of(2, chunk_tokens=1))
        assert isinstance(stream, AsyncGenerator)
        await anext(stream)
        clock.advance(1)
        await stream.aclose()
        clock.advance(1)

    asyncio.run(draw())
    seconds = book.take().seconds
    assert seconds["engine", "busy"] == 4.0 and seconds["engine", "blocked"] == 1.0
