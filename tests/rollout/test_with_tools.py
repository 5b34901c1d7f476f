"""The driver with our own environment and engines: a demonstration that is played, a policy that makes mistakes."""

import json

from rollwright.engines import PlayedEngine, ScriptedEngine, replies_in_order
from rollwright.environments import ToolEnvironment, calculator_tool
from rollwright.record import Message, TerminalReason
from rollwright.rollout import Limits, submission_of
from rollwright.tasks import Payload, make_task
from tests.rollout.fakes import drive, spec_of

TASK = make_task(
    Payload(messages=(Message(role="user", text="What is 12 * 34?"),), answer="408", info={"expression": "12*34"}),
    source="test",
    revision="1",
    split="train",
)


def environment(**more):
    return ToolEnvironment(tools=[calculator_tool()], **more)


def call(renderer, expression, tool="calculator"):
    return renderer.encode_turn("", [(tool, json.dumps({"expression": expression}))])


def texts(done, renderer):
    return [(p.kind, p.text) for p in submission_of(done, renderer).passages]


def test_a_demonstration_is_played_with_real_tools(renderer):
    engine = PlayedEngine([call(renderer, "12*34"), renderer.encode_turn("answer: 408")])
    spec = spec_of(task=TASK, purpose="demonstration", action_origin="demonstration")
    done = drive(renderer, environment(), engine, spec)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert texts(done, renderer)[-2:] == [("tool", "408"), ("policy", "answer: 408")]
    assert all(s.behavior_logprobs is None for s in done.segments)
    assert [row.status for row in done.tool_calls] == ["ok"]


def test_a_demonstration_that_does_not_end_its_episode_fails_with_a_sentence(renderer):
    spec = spec_of(task=TASK, purpose="demonstration", action_origin="demonstration")
    done = drive(renderer, environment(), PlayedEngine([call(renderer, "12*34")]), spec)
    assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE
    assert "demonstration has to end" in str(done.failure_cause)


def test_every_mistake_comes_back_as_text_that_the_policy_reads(renderer):
    turns = [
        renderer.encode_turn("<tool_call>{oops</tool_call>"),
        call(renderer, "1", tool="rm"),
        call(renderer, "1/0"),
        renderer.encode_turn("", [("calculator", "{}")]),
        call(renderer, "12*34"),
        renderer.encode_turn("answer: 408"),
    ]
    engine = ScriptedEngine(replies_in_order([t.tolist() for t in turns]))
    done = drive(renderer, environment(), engine, spec_of(Limits(turns=6), task=TASK))
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert [row.status for row in done.tool_calls] == [
        "invalid_call",
        "invalid_call",
        "tool_error",
        "invalid_call",
        "ok",
    ]
    answers = [text for kind, text in texts(done, renderer) if kind in ("tool", "user", "environment")][1:]
    assert len(answers) == 5 and all(text.startswith("error: ") for text in answers[:4]) and answers[4] == "408"
    assert all(row.answered_in is not None for row in done.tool_calls)
    assert engine.released == ["t000007-01-0/0"]


def test_equal_draws_give_equal_trajectories(renderer):
    def run():
        engine = ScriptedEngine(
            replies_in_order([call(renderer, "12*34").tolist(), renderer.encode_turn("408").tolist()])
        )
        done = drive(renderer, environment(), engine, spec_of(task=TASK))
        return [
            (s.origin, s.token_ids.tolist(), s.finish, s.state_hash, s.call_id, s.spans, s.turn) for s in done.segments
        ], [(row.call_id, row.status, row.result_sha256) for row in done.tool_calls]

    assert run() == run()
