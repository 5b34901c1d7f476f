import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, cast

import pytest

from rollwright.record import Environment, EnvironmentBrokenError, Submission, Task, Verdict, Verifier
from rollwright.rollout import FixedClock
from rollwright.runtime.breaker import Breaker, BreakerRules, DependencyDownError
from rollwright.runtime.guarded import GuardedEnvironment, GuardedVerifier, held
from rollwright.runtime.parts import Attempt
from rollwright.verifiers import Composition, Part
from tests.runtime.fakes import task

RULES = BreakerRules(failures=3, open_s=10, factor=2, longest_open_s=40, look_s=0.001, patience_s=1000)


def made(rules: BreakerRules = RULES) -> tuple[Breaker, FixedClock, list[str]]:
    clock, said = FixedClock(), []
    return Breaker("the judge", rules, clock, said.append), clock, said


async def ask(breaker: Breaker, *, fails: bool) -> None:
    async with breaker.passage() as passage:
        if fails:
            passage.failed("connection refused")
        else:
            passage.succeeded()


async def until(is_so) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - what is waited for is the state of another object
            await asyncio.sleep(0.001)


def test_it_opens_by_count_waits_by_the_clock_and_closes_on_a_trial_that_succeeds():
    async def go() -> None:
        breaker, clock, said = made()
        for _ in range(2):
            await ask(breaker, fails=True)
        await ask(breaker, fails=False)
        for _ in range(3):
            assert breaker.state == "closed" and breaker.is_admitting
            await ask(breaker, fails=True)
        assert breaker.state == "open" and not breaker.is_admitting
        assert said == [
            "the judge failed 3 times in a row (connection refused); nothing that needs it is started for 10 s, then "
            "it is tried again"
        ]
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(breaker, fails=False))
            await until(lambda: breaker.num_waiting == 1)
            assert "1 calls wait for it" in breaker.explain()
            clock.advance(10)
            assert breaker.state == "half_open" and not breaker.is_admitting
        assert breaker.state == "closed"
        assert said[1:] == ["the judge answers again, after 10 s; what needs it goes on"]
        assert breaker.explain() == ""

    asyncio.run(go())


def test_each_failed_trial_makes_the_pause_longer_up_to_its_bound():
    async def go() -> list[float]:
        breaker, clock, _ = made()
        for _ in range(3):
            await ask(breaker, fails=True)
        pauses = []
        for _ in range(4):
            waited = 0.0
            while breaker.state == "open":
                clock.advance(1)
                waited += 1
            pauses.append(waited)
            await ask(breaker, fails=True)
        return pauses

    assert asyncio.run(go()) == [10, 20, 40, 40]


def test_one_trial_at_a_time_passes_and_the_others_wait_for_how_it_ends():
    async def go() -> None:
        breaker, clock, _ = made()
        for _ in range(3):
            await ask(breaker, fails=True)
        inside, most = 0, 0
        door = asyncio.Event()

        async def trial() -> None:
            nonlocal inside, most
            async with breaker.passage() as passage:
                inside += 1
                most = max(most, inside)
                await door.wait()
                inside -= 1
                passage.succeeded()

        clock.advance(10)
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(trial())
            await until(lambda: inside == 1 and breaker.num_waiting == 4)
            door.set()
        assert breaker.state == "closed"

    asyncio.run(go())


def test_a_trial_that_is_cancelled_leaves_its_place_to_the_next():
    async def go() -> None:
        breaker, clock, _ = made()
        for _ in range(3):
            await ask(breaker, fails=True)
        clock.advance(10)
        entered = asyncio.Event()

        async def stuck() -> None:
            async with breaker.passage():
                entered.set()
                await asyncio.Event().wait()

        running = asyncio.ensure_future(stuck())
        await entered.wait()
        running.cancel()
        await asyncio.wait({running})
        await asyncio.wait_for(ask(breaker, fails=False), 10)
        assert breaker.state == "closed"

    asyncio.run(go())


def test_what_leaves_the_block_is_a_failure_and_patience_ends():
    async def go() -> None:
        breaker, clock, _ = made(BreakerRules(failures=3, open_s=100, look_s=0.001, patience_s=50))
        for _ in range(3):
            with pytest.raises(OSError, match="no route"):
                async with breaker.passage():
                    raise OSError("no route")
        waiting = asyncio.ensure_future(ask(breaker, fails=False))
        await until(lambda: breaker.num_waiting == 1)
        clock.advance(51)
        with pytest.raises(DependencyDownError, match="waited for 51 s; the last: OSError: no route"):
            await waiting

    asyncio.run(asyncio.wait_for(go(), 20))


@dataclass
class Server:
    """A verifier whose server is down for a while."""

    down: int
    asked: int = 0
    name: str = "judge"
    revision: str = "1"
    scope: Literal["trajectory"] = "trajectory"
    deadline_s: float = 5.0
    how: str = "raises"

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        self.asked += 1
        is_down = self.asked <= self.down
        if is_down and self.how == "raises":
            raise ConnectionError("refused")
        if is_down and self.how == "hangs":
            await asyncio.Event().wait()
        return [
            Verdict(
                trajectory_id=s.trajectory_id,
                verifier=self.name,
                revision=self.revision,
                scope=self.scope,
                outcome="infrastructure" if is_down else 1.0,
            )
            for s in submissions
        ]


def submission(number: int) -> Submission:
    return Submission(
        trajectory_id=f"t{number:06d}-00-0",
        task=task(0),
        terminal_reason="model_end",
        passages=(),
        artifacts={},
    )


@pytest.mark.parametrize("how", ["raises", "says", "hangs"])
def test_while_a_judge_is_down_nobody_asks_it_and_what_waits_is_scored_when_it_is_back(how):
    async def go() -> None:
        rules = BreakerRules(failures=2, open_s=10, factor=1, longest_open_s=10, look_s=0.001)
        breaker, clock, _ = made(rules)
        server = Server(down=3, how=how, deadline_s=0.05 if how == "hangs" else 5.0)
        verifier: Verifier = GuardedVerifier(server, breaker, patience_s=600.0)
        composition = Composition([Part(verifier=verifier)])
        first = [await composition.score([submission(n)]) for n in range(2)]
        assert {s.outcome for (s,) in first} <= {"grader_error", "infrastructure", "timeout"}
        assert breaker.state == "open"
        async with asyncio.TaskGroup() as group:
            later = [group.create_task(composition.score([submission(n)])) for n in range(2, 6)]
            await until(lambda: breaker.num_waiting == 4)
            assert server.asked == 2
            clock.advance(10)
            await until(lambda: server.asked == 3 and breaker.state == "open")
            clock.advance(10)
        outcomes = [task.result()[0].outcome for task in later]
        assert sorted(map(str, outcomes))[:3] == ["1.0"] * 3
        assert [o for o in outcomes if isinstance(o, float) and o != 1.0] == []

    asyncio.run(asyncio.wait_for(go(), 20))


def test_an_unparsable_judge_did_answer():
    async def go() -> None:
        breaker, _, _ = made()

        class Odd(Server):
            async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
                return [
                    Verdict(
                        trajectory_id=s.trajectory_id,
                        verifier=self.name,
                        revision="1",
                        scope="trajectory",
                        outcome="unparsable_judge",
                    )
                    for s in submissions
                ]

        verifier = GuardedVerifier(Odd(down=0), breaker, patience_s=1.0)
        for number in range(10):
            await verifier.verify([submission(number)])
        assert breaker.state == "closed"

    asyncio.run(go())


class House:
    """An environment whose episodes break as told."""

    name = "house"
    revision = "1"
    actors = {"main": "policy"}  # noqa: RUF012 - as the protocol has it

    def __init__(self, breaks: list[str]) -> None:
        self.breaks = breaks
        self.opened = 0

    @asynccontextmanager
    async def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AsyncGenerator["House"]:
        self.opened += 1
        yield self

    async def begin(self):
        how = self.breaks.pop(0) if self.breaks else ""
        if how == "raises":
            raise EnvironmentBrokenError("the server is gone")
        if how == "hangs":
            await asyncio.Event().wait()


def test_an_environment_whose_server_hangs_or_breaks_is_not_opened_until_it_is_back():
    async def go() -> None:
        breaker, clock, _ = made()
        house = House(["raises", "hangs", "raises"])
        guarded = GuardedEnvironment(cast("Environment", house), breaker)

        async def live(attempt: object) -> str:
            try:
                async with guarded.open(task(0), seed=0) as episode, asyncio.timeout(0.02):
                    await episode.begin()
            except (EnvironmentBrokenError, TimeoutError):
                return "failed"
            return "ended"

        run = held([breaker], live)
        attempt = Attempt(purpose="train", stage="rl", group_id=0, slot=0, attempt=0, task=task(0))
        assert [await run(attempt) for _ in range(3)] == ["failed"] * 3
        assert breaker.state == "open"
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(cast("Coroutine[None, None, str]", run(attempt))) for _ in range(4)]
            await until(lambda: breaker.num_waiting == 4)
            assert house.opened == 3
            clock.advance(10)
        assert [t.result() for t in waiting] == ["ended"] * 4
        assert breaker.state == "closed"

    asyncio.run(asyncio.wait_for(go(), 20))


def test_what_never_opens_or_never_closes_is_refused():
    with pytest.raises(ValueError, match="failures, trials and factor"):
        BreakerRules(failures=0)
    with pytest.raises(ValueError, match="failures, trials and factor"):
        BreakerRules(open_s=10, longest_open_s=5)
