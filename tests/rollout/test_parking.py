"""An episode that is parked at a limit and goes on is the episode that was never cut."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.record import (
    Action,
    Episode,
    Message,
    NamedValue,
    NotSnapshottableError,
    Observation,
    StepResult,
    Task,
    TerminalReason,
    ToolRequest,
    ToolResult,
    digest,
)
from rollwright.rollout import FixedClock, Interruption, Leg, Limits, Parked, run_leg
from tests.cases import case
from tests.rollout.fakes import FakeEngine, FakeEnvironment, chunk, drive, observe, spec_of


@dataclass
class Sums:
    """Keeps a sum for each actor; adding to it is a tool. It tells what it was really asked to do."""

    turns: int = 4
    actors: Mapping[str, str] = field(default_factory=lambda: {"agent": "policy"})
    takes_snapshots: bool = True
    new_context_at: int = -1
    drift: int = 0
    """Added by every episode to what a tool says: a world that does not replay."""
    name: str = "sums"
    revision: str = "1"
    done: list[str] = field(default_factory=list)
    opened: int = 0

    @asynccontextmanager
    async def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AsyncGenerator[Episode]:
        self.opened += 1
        state = json.loads(snapshot) if snapshot else {"sum": seed, "taken": dict.fromkeys(self.actors, 0)}
        yield SumsEpisode(self, state, is_new=snapshot is None)


@dataclass
class SumsEpisode:
    world: Sums
    state: dict
    is_new: bool

    @property
    def tools(self) -> Mapping[str, str]:
        return {"add": '{"type": "object"}'}

    async def begin(self) -> StepResult:
        said = (Message(role="user", text="What is it?"),) if self.is_new else ()
        waiting = [a for a, taken in self.state["taken"].items() if taken < self.world.turns]
        return StepResult(observations=tuple(self._observe(actor, said) for actor in waiting))

    async def call(self, request: ToolRequest) -> ToolResult:
        self.world.done.append(request.arguments)
        self.state["sum"] += json.loads(request.arguments)["x"]
        drifted = self.state["sum"] + self.world.drift * self.world.opened
        return ToolResult(call_id=request.call_id, status="ok", text=f"={drifted}", cost=1.0)

    async def step(self, action: Action) -> StepResult:
        self.world.done.append(action.text)
        self.state["taken"][action.actor] += 1
        taken = self.state["taken"][action.actor]
        if taken == self.world.turns:
            return StepResult(observations=(), rewards=(NamedValue(name="sum", value=float(self.state["sum"])),))
        said = (Message(role="user", text=f"go on {taken}"),)
        observation = self._observe(action.actor, said)
        if taken == self.world.new_context_at:
            observation = replace(observation, is_fresh_context=True)
        return StepResult(observations=(observation,), rewards=(NamedValue(name="turn", value=0.5),))

    async def artifacts(self) -> Mapping[str, bytes]:
        return {"sum": str(self.state["sum"]).encode()}

    async def snapshot(self) -> bytes:
        if not self.world.takes_snapshots:
            raise NotSnapshottableError("it takes none")
        return json.dumps(self.state).encode()

    def _observe(self, actor: str, said: tuple[Message, ...]) -> Observation:
        return Observation(actor=actor, messages=said, state_hash=digest(self.state))


def turns_of(renderer, kinds):
    tokens = {
        "call": renderer.encode_turn("a", [("add", '{"x": 2}'), ("add", '{"x": 3}')]),
        "answer": renderer.encode_turn("it is 4"),
        "malformed": renderer.encode_turn("<tool_call>{</tool_call>"),
        "unknown tool": renderer.encode_turn("b", [("nothing", "{}")]),
    }
    return [tokens[kind].tolist() for kind in kinds]


def scripted(turns):
    """What each turn says, by its number."""

    def reply(request, _):
        number = int(request.request_id.rsplit("/t", 1)[1].split(".")[0])
        return [chunk(turns[number], 0, "stop_token")]

    return FakeEngine(reply)


def by_position(uncut, versions):
    """Draws by context and position alone, as an engine with counter-based draws does; a version for each leg."""
    said, ends = {}, set()
    for segment in (s for s in uncut.segments if s.origin == "policy"):
        for at, token in enumerate(segment.token_ids.tolist()):
            said[segment.context, segment.start + at] = token
        ends.add((segment.context, segment.start + segment.num_tokens))

    def reply(request, _):
        attempt = int(request.request_id.split("/")[0].rsplit("-", 1)[1])
        place, tokens = len(request.token_ids), []
        while len(tokens) < request.max_tokens and (not tokens or (request.context, place + len(tokens)) not in ends):
            tokens.append(said[request.context, place + len(tokens)])
        is_end = (request.context, place + len(tokens)) in ends
        return [chunk(tokens, versions[min(attempt, len(versions) - 1)], "stop_token" if is_end else "length")]

    return FakeEngine(reply)


def run(renderer, leg, environment, engine):
    return asyncio.run(
        run_leg(leg, engines={"policy": engine}, environment=environment, renderer=renderer, clock=FixedClock())
    )


def resumed(renderer, limits, environment, engine, *, most=200):
    """Every attempt until one ends by itself."""
    ended, legs = None, []
    for attempt in range(most):
        spec = spec_of(limits, attempt=attempt)
        ended = run(renderer, Leg(spec=spec, past=legs[-1] if legs else None, at_limit="park"), environment, engine)
        if not isinstance(ended, Parked):
            return legs, ended
        legs.append(ended)
    raise AssertionError("it never ended")


def told(trajectory):
    """All that an episode is but its attempt's number, times and costs."""
    own = trajectory.trajectory_id
    return (
        [
            (s.parent, s.context, s.start, s.origin, s.actor, s.turn, s.token_ids.tolist(), s.spans, s.finish)
            + (s.copied_from, (s.call_id or "").removeprefix(own), s.state_hash, s.policy_version)
            + ([] if s.behavior_logprobs is None else s.behavior_logprobs.tolist(),)
            for s in trajectory.segments
        ],
        [
            (c.call_id.removeprefix(own), c.asked_in, c.answered_in, c.turn, c.tool, c.arguments, c.status, c.result)
            for c in trajectory.tool_calls
        ],
        [(r.verifier, r.outcome, r.span) for r in trajectory.turn_rewards],
        trajectory.artifacts,
        trajectory.initial_state_hash,
        trajectory.terminal_reason,
    )


KINDS = st.sampled_from(["call", "answer", "malformed", "unknown tool"])
LIMITS = st.one_of(
    st.integers(1, 3).map(lambda n: Limits(turns=n, turn_tokens=200, episode_tokens=10_000)),
    st.integers(4, 40).map(lambda n: Limits(turns=50, turn_tokens=200, episode_tokens=n)),
    st.integers(4, 40).map(lambda n: Limits(turns=50, turn_tokens=n, episode_tokens=10_000)),
    st.integers(4, 40).map(lambda n: Limits(turns=2, turn_tokens=n, episode_tokens=n)),
)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(KINDS, min_size=8, max_size=8),
    LIMITS,
    st.sampled_from(["snapshot", "replay"]),
    st.sampled_from(["one", "two at once", "new context"]),
)
def test_a_resumed_episode_is_the_uncut_one(renderer, kinds, limits, restored_by, shape):
    def world():
        return Sums(
            takes_snapshots=restored_by == "snapshot",
            actors=dict.fromkeys(["agent", "helper"] if shape == "two at once" else ["agent"], "policy"),
            new_context_at=2 if shape == "new context" else -1,
        )

    free = Limits(turns=50, turn_tokens=1000, episode_tokens=100_000)
    uncut = drive(renderer, world(), scripted(turns_of(renderer, kinds)), spec_of(free))
    assert uncut.terminal_reason is TerminalReason.MODEL_END, uncut.failure_cause
    legs, whole = resumed(renderer, limits, world(), by_position(uncut, [0]))
    assert told(whole) == told(uncut)
    for number, leg in enumerate(legs):
        cut = leg.trajectory
        assert (cut.terminal_reason, cut.failure_class) == (TerminalReason.SUPERSEDED, "abandoned")
        assert cut.trajectory_id.endswith(f"-{number}") and cut.artifacts == {}
        # Nothing is drawn twice: what is parked stands in the whole, with its own numbers.
        assert sampled(cut) == sampled(whole)[: len(sampled(cut))] or shape == "two at once"
        assert set(sampled(cut)) <= set(sampled(whole))


def sampled(trajectory):
    return [
        (s.context, s.start + at, int(token), float(score), s.policy_version)
        for s in trajectory.segments
        if s.origin == "policy"
        for at, (token, score) in enumerate(zip(s.token_ids, s.behavior_logprobs, strict=True))
    ]


def uncut_and_limits(renderer, world):
    uncut = drive(renderer, world, scripted(turns_of(renderer, ["call"] * 4)), spec_of(Limits(turns=9)))
    return uncut, Limits(turns=9, episode_tokens=uncut.num_action_tokens // 2 + 3)


@pytest.mark.row("S092")
def test_each_token_keeps_the_version_that_drew_it(renderer):
    uncut, limits = uncut_and_limits(renderer, Sums())
    (leg,), whole = resumed(renderer, limits, Sums(), by_position(uncut, [3, 4]))
    assert leg.trajectory.failure_cause == "parked at token_limit"
    versions = [v for *_, v in sampled(whole)]
    assert versions == [3] * limits.episode_tokens + [4] * (len(versions) - limits.episode_tokens)
    turn = [s for s in whole.segments if s.origin == "policy" and s.turn == 2]
    assert [(s.policy_version, s.finish) for s in turn] == [(3, "swapped"), (4, "tool_call")]
    assert [t for _, _, t, _, _ in sampled(whole)] == [t for _, _, t, _, _ in sampled(uncut)]


def test_a_snapshot_is_asked_nothing_again_and_a_replay_everything(renderer):
    uncut, limits = uncut_and_limits(renderer, once := Sums())
    engine = by_position(uncut, [0])
    (leg,), whole = resumed(renderer, limits, kept := Sums(), engine)
    assert kept.done == once.done and leg.snapshot is not None
    assert [c.cost for c in whole.tool_calls] == [None] * 4 + [1.0] * 4 and leg.trajectory.cost == 4.0
    (leg,), _ = resumed(renderer, limits, anew := Sums(takes_snapshots=False), by_position(uncut, [0]))
    assert leg.snapshot is None and len(anew.done) == len(once.done) + 2 * 3
    assert engine.released == ["t000007-01-0/0", "t000007-01-1/0"]


@pytest.mark.parametrize("what", ["result", "state"])
def test_a_world_that_goes_another_way_is_an_infrastructure_failure(renderer, what):
    _, limits = uncut_and_limits(renderer, Sums())
    world = Sums(takes_snapshots=False, drift=1 if what == "result" else 0)
    engine = by_position(drive(renderer, world, scripted(turns_of(renderer, ["call"] * 4)), spec_of()), [0])
    leg = run(renderer, Leg(spec=spec_of(limits), at_limit="park"), world, engine)
    assert isinstance(leg, Parked)
    second = spec_of(limits, attempt=1, reset_seed=11 if what == "result" else 12)
    ended = run(renderer, Leg(spec=second, past=leg, at_limit="park"), world, engine)
    assert not isinstance(ended, Parked)
    assert (ended.terminal_reason, ended.failure_class) == (TerminalReason.INFRASTRUCTURE_FAILURE, "infrastructure")
    named = "the results of turn 0 differs" if what == "result" else "its answer to action 0 differs"
    assert ended.failure_cause is not None and named in ended.failure_cause
    assert "recorded in t000007-01-0" in ended.failure_cause


def test_a_snapshot_that_stands_elsewhere_is_an_infrastructure_failure(renderer):
    uncut, limits = uncut_and_limits(renderer, Sums())
    engine = by_position(uncut, [0])
    leg = run(renderer, Leg(spec=spec_of(limits), at_limit="park"), Sums(), engine)
    assert isinstance(leg, Parked) and leg.snapshot is not None
    spoiled = replace(leg, snapshot=leg.snapshot.replace(b'"sum": ', b'"sum": 1'))
    ended = run(renderer, Leg(spec=spec_of(limits, attempt=1), past=spoiled), Sums(), engine)
    assert not isinstance(ended, Parked) and "the state of its snapshot differs" in (ended.failure_cause or "")


def test_a_context_that_is_full_and_a_clock_are_not_parked_at(renderer):
    turns = turns_of(renderer, ["answer"])
    full = FakeEngine(lambda request, _: [chunk(turns[0][: request.max_tokens], 0, "length")], max_context_tokens=30)
    environment = FakeEnvironment([observe("What is it?")])
    ended = run(renderer, Leg(spec=spec_of(), at_limit="park"), environment, full)
    assert not isinstance(ended, Parked) and ended.terminal_reason is TerminalReason.CONTEXT_LIMIT


def test_without_another_resumption_the_limit_ends_the_episode(renderer):
    uncut, limits = uncut_and_limits(renderer, Sums())
    tight = replace(limits, episode_tokens=20)
    engine = by_position(uncut, [0])
    leg = run(renderer, Leg(spec=spec_of(tight), at_limit="park"), Sums(), engine)
    assert isinstance(leg, Parked)
    ended = run(renderer, Leg(spec=spec_of(tight, attempt=1), past=leg), Sums(), engine)
    assert not isinstance(ended, Parked) and ended.terminal_reason is TerminalReason.TOKEN_LIMIT
    assert (ended.num_action_tokens, ended.failure_class) == (40, None) and ended.artifacts


def test_an_engine_that_is_lost_behind_the_past_loses_none_of_it(renderer):
    uncut, limits = uncut_and_limits(renderer, Sums())
    leg = run(renderer, Leg(spec=spec_of(limits), at_limit="park"), Sums(), by_position(uncut, [0]))
    assert isinstance(leg, Parked)
    lost = FakeEngine([[RuntimeError("gone")]])
    ended = run(renderer, Leg(spec=spec_of(limits, attempt=1), past=leg, at_limit="park"), Sums(), lost)
    assert not isinstance(ended, Parked) and ended.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE
    assert sampled(ended) == sampled(leg.trajectory)


# ------------------------------------------------------------------------------------------------- ended from outside


def interrupted(renderer, world, uncut, *, after, versions=(0,), limits=None):
    """Attempts that are superseded after so many tokens of their own, and one more; each under its own version."""
    limits = limits or Limits(turns=50, turn_tokens=1000, episode_tokens=100_000)
    legs = []
    for attempt in range(len(after) + 1):
        left = after[attempt] if attempt < len(after) else None
        ended = attempt_cut_after(
            renderer, world, uncut, left, legs, (limits, versions[min(attempt, len(versions) - 1)])
        )
        if not isinstance(ended, Parked):
            return legs, ended
        legs.append(ended)
    raise AssertionError("nothing interrupted the last attempt")


def attempt_cut_after(renderer, world, uncut, left, legs, how):
    limits, version = how
    interruption, drawn, whole = Interruption(), 0, by_position(uncut, [version])
    replies: Any = whole.replies

    def reply(request, _):
        nonlocal drawn
        (full,) = replies(request, 0)
        tokens = full.token_ids[: None if left is None else left - drawn]
        drawn += len(tokens)
        if left is None or len(tokens) == len(full.token_ids):
            return [full]
        interruption.reason = TerminalReason.SUPERSEDED
        return [chunk(tokens, version, "aborted")]

    spec = spec_of(limits, attempt=len(legs))
    leg = Leg(spec=spec, past=legs[-1] if legs else None, when_superseded="park")
    ended = asyncio.run(
        run_leg(
            leg,
            engines={"policy": FakeEngine(reply)},
            environment=world,
            renderer=renderer,
            clock=FixedClock(),
            interruption=interruption,
        )
    )
    assert not isinstance(ended, Parked) or interruption.reason is not None
    return ended


@pytest.mark.row("S237")
@settings(max_examples=15, deadline=None)
@given(
    st.lists(KINDS, min_size=8, max_size=8),
    st.lists(st.integers(0, 60), max_size=4),
    st.sampled_from(["snapshot", "replay"]),
    st.sampled_from(["one", "two at once", "new context"]),
)
def test_an_episode_superseded_at_any_token_goes_on_to_the_uncut_one(renderer, kinds, after, restored_by, shape):
    def world():
        return Sums(
            takes_snapshots=restored_by == "snapshot",
            actors=dict.fromkeys(["agent", "helper"] if shape == "two at once" else ["agent"], "policy"),
            new_context_at=2 if shape == "new context" else -1,
        )

    free = Limits(turns=50, turn_tokens=1000, episode_tokens=100_000)
    uncut = drive(renderer, world(), scripted(turns_of(renderer, kinds)), spec_of(free))
    legs, whole = interrupted(renderer, world(), uncut, after=after)
    assert told(whole) == told(uncut)
    assert all(leg.is_interrupted and leg.trajectory.terminal_reason is TerminalReason.SUPERSEDED for leg in legs)


@pytest.mark.case("F81")
def test_a_superseded_turn_keeps_its_first_part_and_has_what_was_left_of_its_budget(renderer):
    worked = case("F81").input
    first, second = worked["part1"], worked["part2"]
    uncut = drive(renderer, Sums(turns=1), scripted(turns_of(renderer, ["call"])), spec_of(Limits(turns=1)))
    limits = Limits(turns=1, turn_tokens=worked["response_budget"])
    versions = [first["version"], second["version"]]
    (leg,), whole = interrupted(renderer, Sums(turns=1), uncut, after=[2], versions=versions, limits=limits)
    assert whole.terminal_reason is TerminalReason.TOKEN_LIMIT
    assert [v for *_, v in sampled(whole)] == case("F81").expect["versions"]
    assert sampled(whole)[:2] == sampled(leg.trajectory)
    assert [t for _, _, t, *_ in sampled(whole)] == [t for _, _, t, *_ in sampled(uncut)][:4]


def test_a_superseded_episode_is_parked_only_where_it_may_be(renderer):
    uncut, limits = uncut_and_limits(renderer, Sums())
    interruption = Interruption(reason=TerminalReason.SUPERSEDED)
    for reason, when in ((TerminalReason.SUPERSEDED, "end"), (TerminalReason.ABORTED, "park")):
        interruption = Interruption(reason=reason)
        ended = asyncio.run(
            run_leg(
                Leg(spec=spec_of(limits), when_superseded=cast("Literal['end', 'park']", when)),
                engines={"policy": by_position(uncut, [0])},
                environment=Sums(),
                renderer=renderer,
                clock=FixedClock(),
                interruption=interruption,
            )
        )
        assert not isinstance(ended, Parked) and ended.terminal_reason is reason


def prompt_of(request) -> Sequence[int]:
    return np.asarray(request.token_ids).tolist()


def test_the_rest_of_a_turn_is_asked_behind_its_last_token_with_the_same_seed_and_context(renderer):
    uncut, limits = uncut_and_limits(renderer, Sums())
    engine = by_position(uncut, [0])
    resumed(renderer, limits, Sums(), engine)
    *_, before, after = engine.requests[:4]
    assert (after.seed, after.context) == (before.seed, before.context)
    drawn = len(prompt_of(after)) - len(prompt_of(before))
    assert drawn == before.max_tokens and after.max_tokens > 0
