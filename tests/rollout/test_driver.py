"""Episodes from the first observation to a terminal reason."""

import asyncio
import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.record import (
    NamedValue,
    Observation,
    StepResult,
    TerminalReason,
    ToolResult,
    branches,
    context_segments,
    ids,
)
from rollwright.rollout import FixedClock, Interruption, Limits, SystemClock, run_episode, run_group, submission_of
from tests.cases import case
from tests.rendering.tokenizers_for_tests import qwen3_renderer
from tests.rollout.fakes import FakeEngine, FakeEnvironment, chunk, drive, observe, spec_of, whole


async def echo(request):
    return ToolResult(
        call_id=request.call_id, status="ok", text="=" + json.loads(request.arguments).get("x", ""), cost=0.5
    )


def context_of(trajectory, segment):
    """What a segment was sampled behind, itself left out."""
    path = context_segments(trajectory.segments, segment.segment)[:-1]
    return np.concatenate([ids([]), *(s.token_ids for s in path)]).tolist()


def answer_to(trajectory, row, renderer):
    assert row.answered_in is not None
    return renderer.decode(trajectory.segments[row.answered_in].token_ids)


def scores_of(segments):
    assert all(s.behavior_logprobs is not None for s in segments)
    return [float(p) for s in segments for p in (s.behavior_logprobs if s.behavior_logprobs is not None else ())]


def ask(renderer, text, *xs):
    return renderer.encode_turn(text, [("echo", json.dumps({"x": x})) for x in xs])


END = StepResult(observations=())


# --------------------------------------------------------------------------------------------------------- a whole one


def test_an_episode_with_a_tool_is_recorded_turn_by_turn(renderer):
    first, second = ask(renderer, "", "12"), renderer.encode_turn("The answer is 42.")
    engine = FakeEngine([whole(first, 3), whole(second, 3)])
    environment = FakeEnvironment(
        [observe("What is 20 * 1?", state_hash="h0"), observe(state_hash="h1"), END], {"echo": echo}
    )
    done = drive(renderer, environment, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END and done.failure_cause is None
    assert done.trajectory_id == "t000007-01-0" and done.initial_state_hash == "h0"
    assert [s.origin for s in done.segments] == [
        *("template", "task", "template", "policy"),
        *("template", "tool", "template", "policy"),
    ]
    call_turn, answer, final = done.segments[3], done.segments[5], done.segments[7]
    assert (call_turn.finish, final.finish) == ("tool_call", "stop_token")
    assert call_turn.token_ids.tolist() == first.tolist() and final.token_ids.tolist() == second.tolist()
    assert scores_of([call_turn]) == pytest.approx([-(i + 1) / 1000 for i in first.tolist()])
    assert (call_turn.policy, call_turn.policy_version, call_turn.turn, final.turn) == ("policy", 3, 0, 1)
    assert (
        renderer.decode(answer.token_ids) == "=12" and answer.state_hash == "h1" and done.segments[1].state_hash == "h0"
    )
    (row,) = done.tool_calls
    assert (row.call_id, row.asked_in, row.answered_in, row.turn) == ("t000007-01-0/c0", 3, 5, 0)
    assert (row.tool, row.arguments, row.status, row.result) == ("echo", '{"x": "12"}', "ok", "=12")
    assert row.result_sha256 == hashlib.sha256(b"=12").hexdigest() and row.result_bytes == 3
    assert done.cost == 0.5 and done.artifacts == {"log": b"done"}
    assert (done.num_turns, done.num_action_tokens) == (2, len(first) + len(second))
    assert [a.text for a in environment.actions] == ["", "The answer is 42."]
    assert engine.released == ["t000007-01-0/0"] and environment.left == 1
    assert done.rendering_revision == renderer.revision({"echo": '{"type": "object", "description": "echo"}'})


@pytest.mark.case("F29", "F125")
def test_every_sampled_turn_is_the_policys_and_nothing_else_is(renderer):
    turns = [ask(renderer, "hm", "1"), ask(renderer, "so", "2"), renderer.encode_turn("42")]
    engine = FakeEngine([whole(t) for t in turns])
    done = drive(renderer, FakeEnvironment([observe("go"), observe(), observe(), END], {"echo": echo}), engine)
    sampled = [s for s in done.segments if s.behavior_logprobs is not None]
    assert [s.origin for s in sampled] == ["policy"] * 3
    assert [s.token_ids.tolist() for s in sampled] == [t.tolist() for t in turns]
    for segment, request in zip(sampled, engine.requests, strict=True):
        assert context_of(done, segment) == request.token_ids.tolist()
    # Each prompt begins with everything before it: nothing was encoded again, no control token is missing.
    for before, turn, after in zip(engine.requests, turns, engine.requests[1:], strict=False):
        start = [*before.token_ids.tolist(), *turn.tolist()]
        assert after.token_ids.tolist()[: len(start)] == start


any_turn = st.tuples(
    st.sampled_from(["call", "answer", "malformed", "unknown tool", "letters", "cut", "empty"]),
    st.lists(st.integers(1, 6), max_size=3),
    st.booleans(),
)


@settings(max_examples=60)
@given(st.lists(any_turn, min_size=1, max_size=5), st.booleans())
def test_every_policy_segment_stands_behind_exactly_what_the_engine_was_sent(renderer, kinds, has_thinking_template):
    chosen = QWEN if has_thinking_template else renderer
    replies, texts = (
        [],
        {
            "call": ask(chosen, "a", "1", "2"),
            "answer": chosen.encode_turn("it is 4"),
            "malformed": chosen.encode_turn("<tool_call>{</tool_call>"),
            "unknown tool": chosen.encode_turn("b", [("nothing", "{}")]),
            "letters": ids([*(chosen.encode_turn(c)[0] for c in "The answer"), chosen.encode_turn("")[-1]]),
            "cut": chosen.encode_turn("The answer")[:-1],
            "empty": ids([]),
        },
    )
    for kind, cuts, _ in kinds:
        tokens = texts[kind]
        edges = sorted({min(c, len(tokens)) for c in cuts} | {0, len(tokens)})
        parts = [chunk(tokens[a:b], version) for version, (a, b) in enumerate(zip(edges, edges[1:], strict=False))]
        finish = "length" if kind in ("cut", "empty") else "stop_token"
        replies.append([*parts, chunk([], len(parts) - 1 if parts else 0, finish)])
    steps = [observe("What is it?"), *(observe("go on" if talks else None) for _, _, talks in kinds[:-1]), END]
    engine = FakeEngine(replies)
    done = drive(chosen, FakeEnvironment(steps, {"echo": echo}), engine, spec_of(Limits(cut_turn="go_on")))
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    by_turn = {}
    for segment in done.segments:
        if segment.origin == "policy":
            by_turn.setdefault(segment.turn, []).append(segment)
    assert len(by_turn) == len(kinds)
    for (kind, _, _), segments, request in zip(
        kinds, (by_turn[t] for t in sorted(by_turn)), engine.requests, strict=True
    ):
        context = request.token_ids.tolist()
        for segment in segments:
            assert context_of(done, segment) == context
            context += segment.token_ids.tolist()
        assert context == [*request.token_ids.tolist(), *texts[kind].tolist()]
        covered = sum(span.token_end - span.token_start for s in segments for span in s.spans or ())
        assert covered == len(texts[kind])
    assert done.num_action_tokens == sum(len(texts[kind]) for kind, _, _ in kinds)
    trained = [s for path in branches(done.segments) for s in path if done.segments[s].origin == "policy"]
    assert set(trained) == {s.segment for s in done.segments if s.origin == "policy"}


QWEN = qwen3_renderer()


# ------------------------------------------------------------------------------------------------------------ versions


def test_new_weights_in_the_middle_of_a_turn_give_a_segment_a_version(renderer):
    turn = ask(renderer, "hm", "12")
    engine = FakeEngine(
        [[chunk(turn[:2], 4), chunk(turn[2:3], 5, cache_version=4), chunk(turn[3:], 5, "stop_token", 4)]]
    )
    done = drive(renderer, FakeEnvironment([observe("go"), END], {"echo": echo}), engine)
    sampled = [s for s in done.segments if s.origin == "policy"]
    assert [(s.policy_version, s.cache_version, s.finish) for s in sampled] == [(4, 4, "swapped"), (5, 4, "tool_call")]
    assert [s.num_tokens for s in sampled] == [2, len(turn) - 2]
    kinds = [(span.kind, span.token_end - span.token_start) for s in sampled for span in s.spans or ()]
    assert sum(n for _, n in kinds) == len(turn) and kinds[-1] == ("stop", 1)
    assert done.tool_calls[0].asked_in == sampled[-1].segment


@pytest.mark.case("F81")
def test_a_request_that_new_weights_ended_goes_on_with_what_is_left_of_its_budget(renderer):
    given_ = case("F81")
    one, two = given_.input["part1"], given_.input["part2"]
    budget = given_.input["response_budget"]

    def reply(request, number):
        if number == 0:
            return [chunk(one["ids"], one["version"], "swapped")]
        return [chunk(two["ids"][: request.max_tokens], two["version"], "length")]

    engine = FakeEngine(reply)
    limits = Limits(turn_tokens=budget)
    done = drive(renderer, FakeEnvironment([observe("go"), END]), engine, spec_of(limits))
    sampled = [s for s in done.segments if s.origin == "policy"]
    assert [i for s in sampled for i in s.token_ids.tolist()] == given_.expect["ids"]
    assert [s.policy_version for s in sampled for _ in s.token_ids] == given_.expect["versions"]
    assert engine.requests[1].max_tokens == given_.expect["second_request_max_tokens"]
    assert sampled[-1].finish == given_.expect["finish_reason"]
    assert scores_of(sampled) == pytest.approx([-(i + 1) / 1000 for i in given_.expect["ids"]])
    assert engine.requests[1].token_ids.tolist() == [*engine.requests[0].token_ids.tolist(), *one["ids"]]
    assert done.terminal_reason is TerminalReason.TOKEN_LIMIT


def test_an_empty_turn_is_a_segment_of_no_tokens(renderer):
    engine = FakeEngine([[chunk([], 2, "stop_token")]])
    done = drive(renderer, FakeEnvironment([observe("go"), END]), engine)
    last = done.segments[-1]
    assert (last.origin, last.num_tokens, last.policy_version, last.finish) == ("policy", 0, 2, "stop_token")
    assert done.terminal_reason is TerminalReason.MODEL_END and done.num_turns == 1


# -------------------------------------------------------------------------------------------------------------- limits


def test_each_limit_is_reported_by_its_own_reason(renderer):
    call = ask(renderer, "", "1")
    endless = [observe("go"), *[observe()] * 20]

    def run(limits, replies=None, **engine):
        fake = FakeEngine(replies or (lambda request, _: cut(request, call)), **engine)
        return drive(renderer, FakeEnvironment(endless, {"echo": echo}), fake, spec_of(limits)), fake

    def cut(request, turn):
        fits = len(turn) <= request.max_tokens
        return [chunk(turn[: request.max_tokens], 0, "stop_token" if fits else "length")]

    turns, _ = run(Limits(turns=3))
    assert turns.terminal_reason is TerminalReason.TURN_LIMIT and turns.num_turns == 3
    assert turns.segments[-1].origin == "template" and turns.tool_calls[-1].answered_in is not None
    one, _ = run(Limits(turn_tokens=len(call) - 1))
    assert one.terminal_reason is TerminalReason.TOKEN_LIMIT and one.segments[-1].finish == "length"
    assert one.tool_calls == () and one.num_turns == 1
    all_, engine = run(Limits(episode_tokens=len(call) + 2))
    assert all_.terminal_reason is TerminalReason.TOKEN_LIMIT and all_.num_action_tokens == len(call) + 2
    assert engine.requests[1].max_tokens == 2
    exact, _ = run(Limits(episode_tokens=len(call)))
    assert exact.terminal_reason is TerminalReason.TOKEN_LIMIT and exact.num_turns == 1
    room = len(engine.requests[1].token_ids)
    narrow, _ = run(Limits(context_tokens=room + 2))
    assert narrow.terminal_reason is TerminalReason.CONTEXT_LIMIT and narrow.segments[-1].num_tokens == 2
    full, _ = run(Limits(), max_context_tokens=room)
    assert full.terminal_reason is TerminalReason.CONTEXT_LIMIT and full.num_turns == 1
    assert all(
        t.failure_class is None and t.terminal_reason.is_truncated for t in (turns, one, all_, exact, narrow, full)
    )


@pytest.mark.case("F120")
def test_context_is_measured_on_the_ids_that_are_sent_tools_included(renderer):
    given_ = case("F120")
    unit = "q"
    assert len(renderer.encode_turn(unit)) == 2  # The letter and the stop token.

    def prompt(text, tools):
        engine = FakeEngine(lambda request, number: whole(renderer.encode_turn("1")))
        return drive(renderer, FakeEnvironment([observe(text), END], tools), engine, spec_of(limits)), engine

    limits = Limits()
    headers = prompt(unit, {})[0].segments[-1].start - 1
    limits = Limits(context_tokens=headers + given_.input["max_prompt"] + 1)
    rows = [(unit * row["text_ids"], {"echo": echo} if row["tool_schema_ids"] else {}) for row in given_.input["rows"]]
    done = [prompt(text, tools) for text, tools in rows]
    reasons = [trajectory.terminal_reason for trajectory, _ in done]
    assert [at for at, reason in enumerate(reasons) if reason is not TerminalReason.CONTEXT_LIMIT] == given_.expect[
        "kept"
    ]
    assert reasons.count(TerminalReason.CONTEXT_LIMIT) == given_.expect["reported"]["dropped"]
    for trajectory, engine in done:
        # Nothing is cut: the template's head and the generation prompt stand, and too long a prompt is not sent.
        text = renderer.decode([i for s in trajectory.segments if s.origin != "policy" for i in s.token_ids])
        assert text.startswith("<|im_start|>") and text.endswith("<|im_start|>assistant\n")
        sent = [len(request.token_ids) for request in engine.requests]
        assert all(length < limits.context_tokens for length in sent)


def test_a_call_above_the_limit_is_answered_so_and_the_episode_goes_on(renderer):
    engine = FakeEngine([whole(ask(renderer, "", "1", "2", "3")), whole(renderer.encode_turn("ok"))])
    environment = FakeEnvironment([observe("go"), observe(), END], {"echo": echo})
    done = drive(renderer, environment, engine, spec_of(Limits(calls=2)))
    assert [row.status for row in done.tool_calls] == ["ok", "ok", "limit"] and len(environment.asked) == 2
    assert done.terminal_reason is TerminalReason.MODEL_END
    assert "no calls left" in answer_to(done, done.tool_calls[2], renderer)


@pytest.mark.parametrize(
    ("clock", "reason", "failure"),
    [
        ("limit", TerminalReason.WALL_CLOCK_LIMIT, None),
        ("failure", TerminalReason.INFRASTRUCTURE_FAILURE, "infrastructure"),
    ],
)
def test_the_wall_clock_is_a_limit_or_in_the_deterministic_mode_a_failure(renderer, clock, reason, failure):
    async def hang(request):
        await asyncio.sleep(60)
        raise AssertionError

    limits = Limits(clock=clock, wall_clock_s=0.05)
    slow_tool = FakeEnvironment([observe("go"), END], {"echo": hang})
    done = drive(renderer, slow_tool, FakeEngine([whole(ask(renderer, "", "1"))]), spec_of(limits), clock=SystemClock())
    assert (done.terminal_reason, done.failure_class) == (reason, failure)
    assert done.tool_calls[0].status == "timeout" and slow_tool.left == 1
    drawn = renderer.encode_turn("The answer")[:2]
    moving = FixedClock()

    def slow_engine(request, number):
        moving.advance(10)
        return [chunk(drawn, 0, "aborted")]

    done = drive(
        renderer, FakeEnvironment([observe("go"), END]), FakeEngine(slow_engine), spec_of(limits), clock=moving
    )
    assert (done.terminal_reason, done.failure_class) == (reason, failure)
    assert done.segments[-1].token_ids.tolist() == drawn.tolist() and done.segments[-1].finish == "aborted"


def test_a_tool_that_takes_too_long_is_a_timeout_that_the_policy_reads(renderer):
    async def hang(request):
        await asyncio.sleep(60)
        raise AssertionError

    engine = FakeEngine([whole(ask(renderer, "", "1")), whole(renderer.encode_turn("ok"))])
    environment = FakeEnvironment([observe("go"), observe(), END], {"echo": hang})
    limits = Limits(call_s=0.02, clock="limit")
    done = drive(renderer, environment, engine, spec_of(limits), clock=SystemClock())
    assert done.terminal_reason is TerminalReason.MODEL_END
    assert done.tool_calls[0].status == "timeout" and done.tool_calls[0].answered_in is not None


def test_a_long_result_is_cut_in_the_middle_and_says_so(renderer):
    async def shout(request):
        return ToolResult(call_id=request.call_id, status="ok", text="a" * 500 + "z" * 500)

    engine = FakeEngine([whole(ask(renderer, "", "1")), whole(renderer.encode_turn("ok"))])
    limits = Limits(result_characters=20, stored_result_bytes=10)
    done = drive(renderer, FakeEnvironment([observe("go"), observe(), END], {"echo": shout}), engine, spec_of(limits))
    row = done.tool_calls[0]
    shown = answer_to(done, row, renderer)
    assert shown == "a" * 10 + "[... 980 of 1000 characters cut ...]" + "z" * 10
    assert (row.retention, row.result) == ("dropped", None)
    assert row.result_sha256 == hashlib.sha256(shown.encode()).hexdigest()


# ---------------------------------------------------------------------------------------------------- what policies do


def test_an_unknown_tool_is_an_invalid_call_that_the_policy_reads(renderer):
    engine = FakeEngine([whole(renderer.encode_turn("", [("rm", "{}")])), whole(renderer.encode_turn("ok"))])
    environment = FakeEnvironment([observe("go"), observe(), END], {"echo": echo})
    done = drive(renderer, environment, engine)
    (row,) = done.tool_calls
    assert (row.tool, row.status) == ("rm", "invalid_call") and environment.asked == []
    assert answer_to(done, row, renderer) == "error: unknown tool 'rm'; available: echo"
    assert environment.actions[0].calls[0].status == "invalid_call"


def test_a_malformed_call_has_a_row_and_its_reason_goes_to_the_environment(renderer):
    bad = renderer.encode_turn("<tool_call>{oops</tool_call>")
    engine = FakeEngine([whole(bad), whole(renderer.encode_turn("ok"))])
    environment = FakeEnvironment([observe("go"), observe("error: read me"), END], {"echo": echo})
    done = drive(renderer, environment, engine)
    (row,) = done.tool_calls
    assert (row.tool, row.status, row.arguments) == ("", "invalid_call", "{oops")
    assert "not valid JSON" in str(environment.actions[0].parse_error) and environment.actions[0].calls == ()
    assert answer_to(done, row, renderer) == "error: read me"
    assert next(s for s in done.segments if s.origin == "policy").finish == "stop_token"


@pytest.mark.row("S308")
def test_calls_of_one_turn_run_together_and_one_failure_leaves_the_others(renderer):
    together = asyncio.Barrier(3)

    async def meet(request):
        async with asyncio.timeout(5):
            await together.wait()
        x = json.loads(request.arguments)["x"]
        return ToolResult(call_id=request.call_id, status="tool_error" if x == "2" else "ok", text=f"r{x}")

    engine = FakeEngine([whole(ask(renderer, "", "1", "2", "3")), whole(renderer.encode_turn("ok"))])
    environment = FakeEnvironment([observe("go"), observe(), END], {"echo": meet})
    done = drive(renderer, environment, engine, spec_of(Limits(call_order="parallel")))
    assert [row.status for row in done.tool_calls] == ["ok", "tool_error", "ok"]
    assert [answer_to(done, row, renderer) for row in done.tool_calls] == ["r1", "r2", "r3"]
    assert done.terminal_reason is TerminalReason.MODEL_END


# ---------------------------------------------------------------------------------------------------- several contexts


def test_stripped_thinking_becomes_a_branch_and_nothing_is_sampled_twice():
    turn = QWEN.encode_turn("4", reasoning="two and two")
    second = QWEN.encode_turn("yes", reasoning="sure")
    engine = FakeEngine([whole(turn, 1), whole(second, 1)])
    done = drive(QWEN, FakeEnvironment([observe("2+2?"), observe("sure?"), END]), engine)
    roots = [s for s in done.segments if s.parent is None]
    assert [s.context for s in roots] == [0, 1] and engine.released == ["t000007-01-0/0", "t000007-01-0/1"]
    sampled = [s for s in done.segments if s.origin == "policy"]
    assert [s.context for s in sampled] == [0, 1]
    copies = {QWEN.decode(s.token_ids): s.copied_from for s in done.segments if s.copied_from is not None}
    assert copies == {"2+2?": 1, "4": sampled[0].segment}
    assert context_of(done, sampled[1]) == engine.requests[1].token_ids.tolist()
    assert "two and two" not in QWEN.decode(engine.requests[1].token_ids)
    texts = [(p.kind, p.text) for p in submission_of(done, QWEN).passages]
    assert texts == [
        ("user", "2+2?"),
        ("reasoning", "two and two"),
        ("policy", "4"),
        ("user", "sure?"),
        ("reasoning", "sure"),
        ("policy", "yes"),
    ]


def test_a_sub_agent_has_its_own_context_policy_and_order(renderer):
    say = {name: renderer.encode_turn(name) for name in ("plan", "work", "check", "end")}
    main = FakeEngine([whole(say["plan"], 2), [0.05, chunk(say["check"], 2, "stop_token")], whole(say["end"], 2)])
    helper = FakeEngine([whole(say["work"], 9)])
    both = StepResult(
        observations=(
            Observation(actor="agent", messages=observe("wait").observations[0].messages),
            Observation(
                actor="helper",
                messages=observe("help").observations[0].messages,
                is_fresh_context=True,
                spawned_by="x/c0",
            ),
        )
    )
    environment = FakeEnvironment(
        [observe("go"), both, END, observe("last"), END], actors={"agent": "policy", "helper": "solver"}
    )
    done = drive(renderer, environment, {"policy": main, "solver": helper})
    assert [(a.actor, a.text) for a in environment.actions] == [
        ("agent", "plan"),
        ("agent", "check"),
        ("helper", "work"),
        ("agent", "end"),
    ]
    sampled = [s for s in done.segments if s.origin == "policy"]
    assert [(s.actor, s.context, s.policy, s.policy_version) for s in sampled] == [
        ("agent", 0, "policy", 2),
        ("agent", 0, "policy", 2),
        ("helper", 1, "solver", 9),
        ("agent", 0, "policy", 2),
    ]
    root = next(s for s in done.segments if s.context == 1)
    assert root.parent is None and root.spawned_by == "x/c0"
    assert main.released == ["t000007-01-0/0"] and helper.released == ["t000007-01-0/1"]
    for segment, request in ((sampled[1], main.requests[1]), (sampled[2], helper.requests[0])):
        assert context_of(done, segment) == request.token_ids.tolist()


def test_compaction_opens_a_fresh_context_of_the_same_actor(renderer):
    engine = FakeEngine([whole(renderer.encode_turn("a")), whole(renderer.encode_turn("b"))])
    environment = FakeEnvironment([observe("long"), observe("short", is_fresh_context=True), END])
    done = drive(renderer, environment, engine)
    assert [s.context for s in done.segments if s.parent is None] == [0, 1]
    assert [r.context for r in engine.requests] == [0, 1]
    assert len(branches(done.segments)) == 2


# ----------------------------------------------------------------------------------------------------------- accidents


def engine_lost():
    from rollwright.record import EngineLostError

    return EngineLostError("the process is gone")


def broken():
    from rollwright.record import EnvironmentBrokenError

    return EnvironmentBrokenError("the sandbox is gone")


def test_a_lost_engine_is_an_infrastructure_failure_that_keeps_what_was_drawn(renderer):
    drawn = renderer.encode_turn("The answer")[:2]
    engine = FakeEngine([[chunk(drawn, 1), engine_lost()]])
    environment = FakeEnvironment([observe("go"), END])
    done = drive(renderer, environment, engine)
    assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE
    assert done.failure_class == "infrastructure" and "the process is gone" in str(done.failure_cause)
    assert done.segments[-1].token_ids.tolist() == drawn.tolist() and done.segments[-1].finish is None
    assert engine.cancelled == ["t000007-01-0/t0"] and engine.released and environment.left == 1
    assert done.artifacts == {}


@pytest.mark.parametrize(
    "reply",
    [[ValueError("bug")], [chunk([1, 2])], [chunk(list(range(60)), 0, "length")], [chunk([1], 0, "aborted")]],
    ids=["raises", "no finish", "too many", "aborted by nobody"],
)
def test_an_engine_that_breaks_its_word_is_an_infrastructure_failure(renderer, reply):
    done = drive(renderer, FakeEnvironment([observe("go"), END]), FakeEngine([reply]), spec_of(Limits(turn_tokens=50)))
    assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE and done.failure_cause


@pytest.mark.parametrize(
    "environment",
    [
        FakeEnvironment([broken()]),
        FakeEnvironment([observe("go"), broken()], {"echo": echo}),
        FakeEnvironment([observe("go"), KeyError("bug")], {"echo": echo}),
        FakeEnvironment([observe("go"), END], {"echo": broken()}),
        FakeEnvironment([observe("go"), END], {"echo": TimeoutError("its own")}),
        FakeEnvironment([observe("go"), END], {"echo": echo}, left_with=broken()),
        FakeEnvironment([observe("go", actor="nobody"), END]),
        FakeEnvironment([StepResult(observations=observe("a").observations * 2), END]),
        FakeEnvironment([StepResult(observations=(Observation(actor="agent", messages=()),)), END]),
    ],
    ids=["begin", "step", "bug in step", "call", "bug in call", "leaving", "no such actor", "two turns", "no message"],
)
@pytest.mark.parametrize("order", ["sequential", "parallel"])
def test_what_an_environment_raises_ends_the_episode_with_its_cause(renderer, environment, order):
    engine = FakeEngine(lambda request, number: whole(ask(renderer, "", "1", "2")))
    done = drive(renderer, environment, engine, spec_of(Limits(call_order=order)))
    assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE and done.failure_class == "infrastructure"
    assert done.failure_cause and "fake" in done.failure_cause
    assert environment.left == environment.opened and engine.open_requests == set()
    assert len(engine.released) == len({r.session for r in engine.requests})


def test_a_cancelled_task_leaves_no_request_session_or_episode(renderer):
    engine = FakeEngine([[chunk([1, 2]), 60.0]])
    environment = FakeEnvironment([observe("go"), END])

    async def run():
        episode = run_episode(
            spec_of(), engines={"policy": engine}, environment=environment, renderer=renderer, clock=SystemClock()
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(episode)
            await asyncio.sleep(0.05)
            task.cancel()
        return task

    assert asyncio.run(run()).cancelled()
    assert engine.cancelled == ["t000007-01-0/t0"] and engine.open_requests == set()
    assert engine.released == ["t000007-01-0/0"] and environment.left == 1


def test_an_interruption_brings_back_what_was_drawn(renderer):
    engine = FakeEngine([[chunk([40, 41]), 60.0]])

    async def run():
        interruption = Interruption()
        environment = FakeEnvironment([observe("go"), END])
        async with asyncio.TaskGroup() as group:
            task = group.create_task(
                run_episode(
                    spec_of(),
                    engines={"policy": engine},
                    environment=environment,
                    renderer=renderer,
                    clock=SystemClock(),
                    interruption=interruption,
                )
            )
            await asyncio.sleep(0.05)
            await interruption.end(TerminalReason.SUPERSEDED)
            await interruption.end(TerminalReason.ABORTED)
        return task.result()

    done = asyncio.run(run())
    assert done.terminal_reason is TerminalReason.SUPERSEDED and done.failure_class == "abandoned"
    assert done.segments[-1].token_ids.tolist() == [40, 41] and done.segments[-1].finish == "aborted"
    assert engine.open_requests == set()


def test_a_group_settles_every_attempt_in_order(renderer):
    def reply(request, number):
        if request.session.startswith("t000007-01"):
            return [engine_lost()]
        return [0.02 * (3 - int(request.session[9])), chunk(renderer.encode_turn("ok"), 0, "stop_token")]

    async def run():
        return await run_group(
            [spec_of(slot=slot) for slot in range(3)],
            engines={"policy": FakeEngine(reply)},
            environment=FakeEnvironment([observe("go"), END]),
            renderer=renderer,
            clock=SystemClock(),
        )

    done = asyncio.run(run())
    assert [t.slot for t in done] == [0, 1, 2]
    assert [t.terminal_reason for t in done] == [
        TerminalReason.MODEL_END,
        TerminalReason.INFRASTRUCTURE_FAILURE,
        TerminalReason.MODEL_END,
    ]
    assert len({r for t in done for r in [t.reset_seed]}) == 1


# --------------------------------------------------------------------------------------------- demonstrations, rewards


def test_a_demonstration_is_driven_the_same_way_and_claims_no_probability(renderer):
    turns = [ask(renderer, "", "12"), renderer.encode_turn("42")]
    environment = FakeEnvironment([observe("go"), observe(), END], {"echo": echo})
    spec = spec_of(purpose="demonstration", action_origin="demonstration")
    done = drive(renderer, environment, FakeEngine([whole(t) for t in turns]), spec)
    shown = [s for s in done.segments if s.origin == "demonstration"]
    assert [s.token_ids.tolist() for s in shown] == [t.tolist() for t in turns]
    assert all(s.behavior_logprobs is None and s.policy is None and s.policy_version is None for s in shown)
    assert [s.finish for s in shown] == ["tool_call", "stop_token"]
    assert done.tool_calls[0].status == "ok" and done.num_action_tokens == sum(map(len, turns))


def test_a_reward_within_the_episode_is_a_verdict_on_the_turns_last_segment(renderer):
    turn = renderer.encode_turn("The answer")
    paid = StepResult(observations=(), rewards=(NamedValue(name="progress", value=0.5),), end="environment_success")
    engine = FakeEngine([[chunk(turn[:1], 1), chunk(turn[1:], 2, "stop_token")]])
    done = drive(renderer, FakeEnvironment([observe("go"), paid]), engine)
    assert done.terminal_reason is TerminalReason.ENVIRONMENT_SUCCESS
    (verdict,) = done.turn_rewards
    assert (verdict.scope, verdict.outcome, verdict.verifier) == ("turn", 0.5, "fake/progress")
    assert verdict.span is not None and verdict.span.segment == len(done.segments) - 1


def test_a_submission_shows_who_said_what_without_what_the_template_wrote(renderer):
    engine = FakeEngine([whole(ask(renderer, "look", "12")), whole(renderer.encode_turn("42"))])
    environment = FakeEnvironment([observe("go"), observe("and?"), END], {"echo": echo})
    shown = submission_of(drive(renderer, environment, engine), renderer)
    call = '<tool_call>{"name": "echo", "arguments": {"x": "12"}}</tool_call>'
    assert [(p.kind, p.text) for p in shown.passages] == [
        ("user", "go"),
        ("policy", "look" + call),
        ("tool", "=12"),
        ("user", "and?"),
        ("policy", "42"),
    ]
    assert shown.terminal_reason == "model_end" and shown.artifacts == {"log": b"done"}
