"""The simulated loop: time jumps, threads take their turn, a kill ends everything, and a deadlock is told."""

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.runtime.simulation.clock import KilledError, SimulatedLoop, StuckError


def test_a_year_goes_by_at_once_and_in_order():
    heard: list[tuple[float, str]] = []

    async def wait(name: str, days: float) -> None:
        await asyncio.sleep(days * 86400)
        heard.append((asyncio.get_running_loop().time() / 86400, name))

    async def both() -> None:
        async with asyncio.timeout(400 * 86400), asyncio.TaskGroup() as tasks:
            tasks.create_task(wait("late", 365))
            tasks.create_task(wait("early", 1e-5))

    loop = SimulatedLoop()
    loop.run_until_complete(both())
    loop.close()
    assert heard == [(pytest.approx(1e-5), "early"), (pytest.approx(365), "late")]


def test_calls_of_one_thread_come_one_after_the_other_and_those_of_the_pool_together():
    async def work(executor: ThreadPoolExecutor | None) -> float:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(executor, int) for _ in range(3)))
        return loop.time()

    with ThreadPoolExecutor(max_workers=1) as thread:
        for executor, seconds in ((thread, 6.0), (None, 2.0)):
            loop = SimulatedLoop(duration=lambda executor: 2.0)
            assert loop.run_until_complete(work(executor)) == seconds
            loop.close()


def test_what_a_thread_ran_into_reaches_who_waits():
    loop = SimulatedLoop()
    with pytest.raises(ZeroDivisionError):
        loop.run_until_complete(asyncio.wait_for(loop.run_in_executor(None, lambda: 1 / 0), 1))
    loop.close()


def test_a_deadlock_names_who_waits_and_where():
    async def locked() -> None:
        first, second = asyncio.Lock(), asyncio.Lock()

        async def take(one: asyncio.Lock, other: asyncio.Lock) -> None:
            async with one:
                await asyncio.sleep(1)
                async with other:
                    pass

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(take(first, second), name="left")
            tasks.create_task(take(second, first), name="right")

    loop = SimulatedLoop()
    with pytest.raises(StuckError, match=r"left at .*take:\d+; right at .*take:\d+"):
        loop.run_until_complete(locked())
    loop.call_off()
    loop.close()


def test_what_never_ends_is_stuck_as_well():
    async def spin() -> None:
        for _ in itertools.count():
            await asyncio.sleep(1)

    loop = SimulatedLoop(most_calls=1000)
    with pytest.raises(StuckError, match="no end after 100. calls"):
        loop.run_until_complete(spin())
    loop.call_off()
    loop.close()


@pytest.mark.parametrize("kill_at", range(1, 9))
def test_a_killed_process_writes_nothing_more(kill_at):
    written: list[str] = []

    async def write() -> None:
        for number in range(5):
            await asyncio.to_thread(written.append, str(number))

    def kill(number: int) -> None:
        if number == kill_at:
            raise KilledError

    loop = SimulatedLoop(duration=lambda executor: 1.0, after_call=kill)
    with pytest.raises(KilledError):
        loop.run_until_complete(write())
    before = list(written)
    loop.call_off()
    loop.close()
    assert written == before and len(written) < 5
    assert not loop.complaints
