"""What an environment from outside may get wrong: each is the failure of its own episode, with a cause."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from rollwright.record import NamedValue, Observation, StepResult, TerminalReason, ToolResult
from rollwright.rollout import Limits, SystemClock, run_episode, stay
from tests.rollout.fakes import FakeEngine, FakeEnvironment, FakeEpisode, drive, observe, spec_of, whole
from tests.rollout.test_driver import END, ask, echo


@dataclass
class OddEnvironment(FakeEnvironment):
    """Leaves what it is told, and is slow or gives up where it is told."""

    artifacts: object = field(default_factory=dict)
    entering_s: float = 0.0
    leaving_s: float = 0.0
    raised_at_the_door: BaseException | None = None

    @asynccontextmanager
    async def open(self, task, *, seed, snapshot=None):
        self.opened += 1
        if self.raised_at_the_door is not None:
            raise self.raised_at_the_door
        await asyncio.sleep(self.entering_s)
        try:
            yield OddEpisode(self)
        finally:
            await asyncio.sleep(self.leaving_s)
            self.left += 1


@dataclass
class OddEpisode(FakeEpisode):
    async def artifacts(self):
        return self.environment.artifacts  # pyright: ignore[reportAttributeAccessIssue] - wrong on purpose

    def _next(self):
        step = self.environment.steps[self.taken]
        if isinstance(step, BaseException):
            raise step
        return super()._next()


def failed(renderer, environment, **limits):
    """The cause with which an episode failed, with nothing left of it that could be paid."""
    engine = FakeEngine(lambda request, number: whole(ask(renderer, "", "1")))
    done = drive(renderer, environment, engine, spec_of(Limits(**limits)), clock=SystemClock())
    assert (done.terminal_reason, done.failure_class) == (TerminalReason.INFRASTRUCTURE_FAILURE, "infrastructure")
    assert done.failure_cause and done.artifacts == {} and done.turn_rewards == ()
    assert len(engine.released) == len({r.session for r in engine.requests})
    return done.failure_cause


def paid(value, name="r"):
    return replace(END, rewards=(NamedValue(name=name, value=value),))


@pytest.mark.parametrize(
    "step, cause",
    [
        (None, "NoneType"),
        ({"observations": ()}, "dict"),
        (paid(float("inf")), "finite"),
        (paid(float("nan")), "finite"),
        (paid(1e308), "finite"),
        (paid("1"), "finite"),
        (paid(None), "not a number"),
        (paid(1.0, name=3), "name of a reward"),  # pyright: ignore[reportArgumentType] - wrong on purpose
        (replace(END, rewards=(1.0,)), "NamedValue"),
        (replace(END, rewards=None), "rewards"),
        (replace(END, end="aborted"), "its end is 'aborted'"),
        (replace(END, end="infrastructure_failure"), "its end is"),
        (replace(END, end="superseded"), "its end is"),
        (replace(END, end="nonsense"), "its end is"),
        (replace(END, end=["nonsense"]), "its end is"),
        (replace(END, observations=None), "observations"),
        (replace(END, observations=("go",)), "Observation"),
        (observe("x", state_hash=7), "state_hash is a int"),
        (observe("x", state_hash="\ud800"), "halves"),
        (observe(7), "a message is a int"),
        (observe("x", actor=["agent"]), "actor"),  # pyright: ignore[reportArgumentType] - wrong on purpose
        (StepResult(observations=(Observation(actor="agent", messages=("go",)),)), "Message"),  # pyright: ignore[reportArgumentType] - wrong on purpose
    ],
)
@pytest.mark.parametrize("place", ["begin", "step"])
def test_a_step_that_is_none_breaks_the_environment(renderer, step, cause, place):
    steps = [step] if place == "begin" else [observe("go"), step]
    if place == "begin" and isinstance(step, StepResult) and step.rewards:
        assert failed(renderer, FakeEnvironment(steps, {"echo": echo}))
        return
    assert cause in failed(renderer, OddEnvironment(steps, {"echo": echo}))


@pytest.mark.parametrize("artifacts", [None, {"a": "text"}, {"a": b"", 3: b""}, {"\ud800": b""}, [("a", b"")]])
def test_artifacts_that_are_no_bytes_by_name_break_the_environment(renderer, artifacts):
    environment = OddEnvironment([observe("go"), END], {"echo": echo}, artifacts=artifacts)
    assert "artifact" in failed(renderer, environment)
    assert environment.left == 1


@pytest.mark.parametrize(
    "face", [{"revision": 3}, {"revision": None}, {"name": 3}, {"actors": None}, {"actors": {"agent": 1}}]
)
def test_an_environment_that_cannot_say_what_it_is_is_not_opened(renderer, face):
    environment = FakeEnvironment([observe("go"), END], **face)
    assert next(iter(face)) in failed(renderer, environment) and environment.opened == 0


@pytest.mark.parametrize("changes", [{"text": 3}, {"text": b"3"}, {"text": "\ud800"}, {"cost": "1"}, {"cost": np.inf}])
@pytest.mark.parametrize("order", ["sequential", "parallel"])
def test_a_tools_answer_that_is_none_breaks_the_environment(renderer, changes, order):
    async def odd(request):
        return replace(ToolResult(call_id=request.call_id, status="ok", text="3"), **changes)

    assert failed(renderer, FakeEnvironment([observe("go"), END], {"echo": odd}), call_order=order)


class OutsideError(BaseException):
    """None of Python's own."""


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), OutsideError("no")])
@pytest.mark.parametrize("order", ["sequential", "parallel"])
@pytest.mark.parametrize("place", ["open", "begin", "call", "step"])
def test_an_environment_that_gives_up_ends_its_own_episode_alone(renderer, error, order, place):
    async def give_up(request):
        raise error

    environment = {
        "open": OddEnvironment([observe("go"), END], raised_at_the_door=error),
        "begin": OddEnvironment([error]),
        "call": OddEnvironment([observe("go"), END], {"echo": give_up}),
        "step": OddEnvironment([observe("go"), error], {"echo": echo}),
    }[place]
    assert type(error).__name__ in failed(renderer, environment, call_order=order)


def test_a_cause_is_cut_and_can_be_stored(renderer):
    cause = failed(renderer, FakeEnvironment([ValueError("\ud800" + "x" * 9000)]))
    assert len(cause) == 2000 and cause.encode()


@pytest.mark.parametrize("clock", ["limit", "failure"])
def test_entering_has_a_time_and_too_long_a_one_is_no_doing_of_the_policy(renderer, clock):
    environment = OddEnvironment([observe("go"), END], entering_s=60)
    assert "opening" in failed(renderer, environment, wall_clock_s=0.05, clock=clock)


def test_leaving_has_a_time(renderer, monkeypatch):
    monkeypatch.setattr(stay, "GRACE_S", 0.05)
    assert "leaving" in failed(renderer, OddEnvironment([observe("go"), END], {"echo": echo}, leaving_s=60))


@pytest.mark.parametrize("leaving_s", [0.0, 60.0])
def test_a_cancelling_of_the_task_comes_through_whatever_the_environment_does(renderer, monkeypatch, leaving_s):
    monkeypatch.setattr(stay, "GRACE_S", 0.05)
    environment = OddEnvironment([observe("go"), END], leaving_s=leaving_s)

    async def run():
        engine = FakeEngine([[60.0]])
        task = asyncio.create_task(
            run_episode(
                spec_of(), engines={"policy": engine}, environment=environment, renderer=renderer, clock=SystemClock()
            )
        )
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled(), engine.released

    assert asyncio.run(run()) == (True, ["t000007-01-0/0"])
