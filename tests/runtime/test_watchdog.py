import asyncio
import contextlib
from dataclasses import replace

import pytest

from rollwright.rollout import FixedClock
from rollwright.runtime.errors import NoProgressError
from rollwright.runtime.watchdog import Patience, Watchdog, WatchRules


def made(rules: WatchRules) -> tuple[Watchdog, FixedClock, list[str]]:
    clock, said = FixedClock(), []
    return Watchdog(rules, clock, said.append), clock, said


RULES = WatchRules(
    patience={"learner": Patience(tell_s=10, stop_s=60), "engine": Patience(tell_s=5)}, run_s=1000, look_s=0.01
)


def test_what_is_waited_for_too_long_is_named_once_and_its_end_is_told():
    dog, clock, said = made(RULES)
    with dog.waiting("engine", "turn t1"):
        clock.advance(5)
        dog.look()
        assert said == [] and dog.stalls() == ()
        clock.advance(1)
        dog.look()
        dog.look()
        assert said == ["engine has given no sign for 6 s: turn t1"]
        assert [(stall.component, stall.quiet_s) for stall in dog.stalls()] == [("engine", 6)]
    assert said[1:] == ["engine is done with turn t1, after 6 s"]
    assert dog.stalls() == ()


def test_a_component_that_moves_may_take_as_long_as_it_likes():
    dog, clock, said = made(RULES)
    with dog.waiting("learner", "step 1") as wait:
        for _ in range(30):
            clock.advance(9)
            wait.beat()
            dog.look()
    assert said == []


def test_one_wait_is_not_hidden_by_others_that_move():
    dog, clock, _ = made(RULES)
    with dog.waiting("engine", "turn a"), dog.waiting("engine", "turn b") as moving:
        clock.advance(6)
        moving.beat()
        assert [stall.what for stall in dog.stalls()] == ["turn a"]


def test_a_component_that_cannot_be_made_again_ends_the_run_with_a_diagnosis():
    dog, clock, _ = made(RULES)
    dog.progressed("step 3")
    dog.failed("verifiers", "grader_error")
    dog.failed("verifiers", "grader_error")
    dog.explain(lambda: "the judge is down")
    dog.explain(lambda: "")
    with dog.waiting("learner", "step 4"), dog.waiting("disk", "commit 3"):
        clock.advance(61)
        with pytest.raises(NoProgressError) as raised:
            dog.look()
    text = str(raised.value)
    assert "learner has given no sign for 61 s: step 4" in text
    assert "the last progress was step 3, 61 s ago" in text
    assert "disk owes commit 3, the longest silent for 61 s" in text
    assert "verifiers failed 2 times: grader_error; the judge is down. " in text
    assert "`rollwright resume`" in text


def test_a_run_that_lives_and_gets_nowhere_is_ended():
    dog, clock, _ = made(RULES)
    for number in range(200):
        clock.advance(5)
        with dog.waiting("engine", f"turn {number}"):
            dog.look()
    clock.advance(1)
    with pytest.raises(NoProgressError, match=r"no step was finished for 1001 s.*nothing yet.*nothing is waited for"):
        dog.look()


def test_what_moves_is_never_ended():
    dog, clock, _ = made(RULES)
    for step in range(5):
        clock.advance(999)
        dog.progressed(f"step {step}")
        dog.look()


def test_a_component_that_was_given_up_ends_the_run_at_the_next_look():
    dog, _, _ = made(RULES)
    dog.give_up("engine", "5 engines in a row were lost")
    with pytest.raises(NoProgressError, match="engine cannot be made again: 5 engines in a row were lost"):
        dog.look()


def test_the_loop_looks_until_it_is_cancelled_and_stops_the_run_by_itself():
    async def go() -> None:
        dog, clock, _ = made(RULES)
        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.TaskGroup() as group:
                group.create_task(dog.run(), name="watchdog")
                with dog.waiting("learner", "step 1"):
                    clock.advance(61)
                    await asyncio.Event().wait()
        assert isinstance(raised.value.exceptions[0], NoProgressError)

    asyncio.run(asyncio.wait_for(go(), 20))


def test_a_stopped_run_that_something_holds_says_so():
    async def hold(said: list[str]) -> None:
        while not said:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    async def go() -> list[str]:
        dog, clock, said = made(replace(RULES, let_go_s=0.05))
        clock.advance(1001)
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(dog.run(), name="watchdog")
                group.create_task(hold(said), name="an environment that is not cancelled")
        return said

    (said,) = asyncio.run(asyncio.wait_for(go(), 20))
    assert "does not let itself be cancelled" in said and "no step was finished for 1001 s" in said


def test_a_loop_that_was_held_is_named():
    async def go() -> list[str]:
        dog, clock, said = made(WatchRules(patience={"event loop": Patience(tell_s=2)}, look_s=0.01))
        running = asyncio.ensure_future(dog.run())
        await asyncio.sleep(0)
        clock.advance(30)
        while not said:  # noqa: ASYNC110 - told by a sentence, not by an event
            await asyncio.sleep(0.01)
        running.cancel()
        return said

    assert asyncio.run(asyncio.wait_for(go(), 20)) == [
        "the event loop was held for 30 s: something blocks it that should wait"
    ]


def test_restarts_are_counted_and_told():
    dog, _, said = made(RULES)
    for _ in range(3):
        dog.restarted("engine", "it died")
    assert [sentence.split(":")[0] for sentence in said] == [
        f"engine was made again, for the {n} time" for n in ("1st", "2nd", "3rd")
    ]
    assert "engine has nothing to do, made again 3 times" in dog.diagnosis()


@pytest.mark.parametrize("patience", [{"tell_s": 0}, {"tell_s": 5, "stop_s": 1}])
def test_a_patience_that_cannot_be_kept_is_refused(patience):
    with pytest.raises(ValueError, match="tell_s is above 0"):
        Patience(**patience)
