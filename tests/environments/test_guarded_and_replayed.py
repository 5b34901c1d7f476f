"""Calls that break an invariant never reach a tool; recorded answers replay offline, and nothing is made up."""

import asyncio
import json

import pytest

from rollwright.environments import (
    VIOLATIONS,
    EnvironmentSetupError,
    GuardedEnvironment,
    Invariant,
    RecordedAnswer,
    Recorder,
    ToolEnvironment,
    ToolError,
    read_answers,
    replayed_tool,
    tool_of,
    write_answers,
)
from rollwright.record import Action, EnvironmentBrokenError, Message, Submission, ToolRequest
from rollwright.tasks import Payload, make_task
from rollwright.verifiers import Composition, FunctionVerifier, Grade, Part

TASK = make_task(
    Payload(messages=(Message(role="user", text="Pay 5."),), answer="5", info={}),
    source="bank",
    revision="1",
    split="train",
)
PAID: list[int] = []
SEARCHED: list[str] = []


def pay(amount: int) -> str:
    """Pay.

    Args:
        amount: how much
    """
    PAID.append(amount)
    return f"paid {amount}"


def search(query: str) -> str:
    """Search.

    Args:
        query: words
    """
    SEARCHED.append(query)
    if not query:
        raise ToolError("an empty query")
    return f"about {query}"


RULES = (
    Invariant(
        name="ceiling",
        says="at most 10 is paid at once",
        holds=lambda moment: not (isinstance(a := moment.arguments.get("amount"), int) and a > 10),
    ),
    Invariant(name="once", says="one payment an episode", holds=lambda moment: moment.tool != "pay" or not moment.done),
)


def guarded():
    return GuardedEnvironment(ToolEnvironment(tools=[tool_of(pay)], name="bank"), RULES)


async def called(environment, *amounts):
    async with environment.open(TASK, seed=0) as episode:
        await episode.begin()
        results = [
            await episode.call(ToolRequest(call_id=f"c{n}", tool="pay", arguments=json.dumps({"amount": amount})))
            for n, amount in enumerate(amounts)
        ]
        await episode.step(Action(actor="agent", turn=0, text="", calls=tuple(results)))
        return results, await episode.artifacts(), await episode.snapshot()


@pytest.mark.row("S395")
def test_the_registry_of_invariants_blocks_violating_actions_before_any_tool_runs():
    PAID.clear()
    results, _, saved = asyncio.run(called(guarded(), 50, 5, 3))
    assert [r.status for r in results] == ["refused", "ok", "refused"]
    assert results[0].text == "error: refused by ceiling: at most 10 is paid at once"
    assert results[2].text == "error: refused by once: one payment an episode"
    assert PAID == [5]
    assert dict(guarded().invariants) == {"ceiling": RULES[0].says, "once": RULES[1].says}

    async def restored():
        async with guarded().open(TASK, seed=0, snapshot=saved) as episode:
            await episode.begin()
            late = await episode.call(ToolRequest(call_id="c3", tool="pay", arguments='{"amount": 1}'))
            return late, json.loads((await episode.artifacts())[VIOLATIONS])

    late, counted = asyncio.run(restored())
    assert late.status == "refused"
    assert len(counted) == 3


@pytest.mark.row("S422")
def test_a_violating_call_is_blocked_counted_and_never_rewarded():
    def obeys(submission):
        broken = json.loads(submission.artifacts[VIOLATIONS])
        return Grade(value=float(not broken), evidence=f"{len(broken)} violations")

    parts = (
        Part(verifier=FunctionVerifier(name="done", revision="1", grade=lambda s: Grade(value=1.0, evidence="done"))),
        Part(verifier=FunctionVerifier(name="safe", revision="1", grade=obeys), role="gate"),
    )

    def reward(*amounts):
        _, artifacts, _ = asyncio.run(called(guarded(), *amounts))
        submission = Submission(
            trajectory_id="t", task=TASK, terminal_reason="model_end", passages=(), artifacts=artifacts
        )
        (score,) = asyncio.run(Composition(parts).score([submission]))
        return score.outcome, [v.evidence for v in score.verdicts]

    assert reward(5) == (1.0, ["done", "0 violations"])
    assert reward(50, 5, 3) == (0.0, ["done", "2 violations"])


def test_rules_are_part_of_the_revision_and_have_names_of_their_own():
    inside = ToolEnvironment(tools=[tool_of(pay)], name="bank")
    assert guarded().revision == guarded().revision != inside.revision
    assert GuardedEnvironment(inside, RULES[:1]).revision != guarded().revision
    with pytest.raises(EnvironmentSetupError, match="one name"):
        GuardedEnvironment(inside, (RULES[0], RULES[0]))

    async def broken():
        async with guarded().open(TASK, seed=0, snapshot=b"{}"):
            raise AssertionError

    with pytest.raises(EnvironmentBrokenError, match="does not fit"):
        asyncio.run(broken())


async def asked(tool, *queries):
    async with ToolEnvironment(tools=[tool]).open(TASK, seed=0) as episode:
        await episode.begin()
        return [
            await episode.call(ToolRequest(call_id=f"c{n}", tool="search", arguments=json.dumps({"query": query})))
            for n, query in enumerate(queries)
        ]


@pytest.mark.row("S470")
def test_recorded_answers_replay_offline_and_unseen_queries_fail_loudly(tmp_path):
    recorder = Recorder()
    live = asyncio.run(asked(recorder.watching(tool_of(search)), "cats", "", "dogs"))
    write_answers(tmp_path / "answers.jsonl", recorder.answers)
    answers = read_answers(tmp_path / "answers.jsonl")
    assert answers == tuple(recorder.answers)
    SEARCHED.clear()
    offline = replayed_tool(tool_of(search), answers)
    again = asyncio.run(asked(offline, "cats", "", "dogs"))
    assert again == live
    assert [r.status for r in again] == ["ok", "tool_error", "ok"]
    with pytest.raises(EnvironmentBrokenError, match='no recorded answer to .*"birds"'):
        asyncio.run(asked(offline, "birds"))
    assert SEARCHED == []
    assert offline.revision != tool_of(search).revision != replayed_tool(tool_of(search), answers[:1]).revision


def test_a_record_with_two_answers_to_one_call_or_a_broken_line_is_refused(tmp_path):
    one = RecordedAnswer(tool="search", arguments="{}", text="a")
    with pytest.raises(EnvironmentSetupError, match="two answers"):
        replayed_tool(tool_of(search), [one, RecordedAnswer(tool="search", arguments="{}", text="b")])
    (tmp_path / "a.jsonl").write_text('{"tool": "search"}\n')
    with pytest.raises(EnvironmentSetupError, match=r"line 1 of a.jsonl"):
        read_answers(tmp_path / "a.jsonl")
