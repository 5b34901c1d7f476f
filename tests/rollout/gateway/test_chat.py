"""Agents that speak Chat Completions, by OpenAI's own client."""

import json

import pytest
from openai import OpenAI

from rollwright.record import TerminalReason
from tests.rollout.gateway.living import (
    CHAT_TOOLS,
    call_of,
    check,
    context_of,
    letters,
    live,
    openai_client,
    scripted,
    turns_of,
)


def test_a_conversation_keeps_its_tokens_and_has_only_what_is_new_rendered(renderer):
    replies = [letters(renderer, text) for text in ("It is 42.", "Yes, quite.")]
    engine = scripted(replies)
    heard = []

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is it?"}]
            for follow_up in ("Sure?", None):
                answer = await client.chat.completions.create(model="gpt-x", messages=messages, max_tokens=64)
                heard.append(answer)
                messages += [answer.choices[0].message, {"role": "user", "content": follow_up}]

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert [a.choices[0].message.content for a in heard] == ["It is 42.", "Yes, quite."]
    assert [a.choices[0].finish_reason for a in heard] == ["stop", "stop"]
    assert turns_of(done) == [list(reply.token_ids) for reply in replies]
    first, second = (request.token_ids.tolist() for request in engine.requests)
    assert second[: len(first) + len(replies[0].token_ids)] == [*first, *replies[0].token_ids]
    assert heard[1].usage.prompt_tokens == len(second)
    assert {segment.context for segment in done.segments} == {0}
    assert [s.origin for s in done.segments if s.origin != "template"] == ["task", "task", "policy", "user", "policy"]
    check(done, engine)
    assert engine.released == ["t000007-01-0/0"]


def test_calls_are_told_with_ids_and_their_results_are_of_the_tool(renderer):
    towns = ("Rome", "Oslo")
    replies = [letters(renderer, "Looking.", [call_of(t) for t in towns]), letters(renderer, "Both are fine.")]
    engine = scripted(replies)
    finishes = []

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            messages = [{"role": "user", "content": "Rome and Oslo?"}]
            while True:
                answer = await client.chat.completions.create(model="m", messages=messages, tools=CHAT_TOOLS)
                choice = answer.choices[0]
                finishes.append(choice.finish_reason)
                messages.append(choice.message)
                if not choice.message.tool_calls:
                    return
                for call in choice.message.tool_calls:
                    town = json.loads(call.function.arguments)["town"]
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": f"{town}: sun"})

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert finishes == ["tool_calls", "stop"]
    rows = done.tool_calls
    assert [(r.call_id, r.tool, r.status, r.result) for r in rows] == [
        ("t000007-01-0/c0", "weather", "ok", "Rome: sun"),
        ("t000007-01-0/c1", "weather", "ok", "Oslo: sun"),
    ]
    for row in rows:
        asked, answered = done.segments[row.asked_in], done.segments[row.answered_in]
        assert asked.origin == "policy" and asked.finish == "tool_call" and asked.turn == row.turn
        assert answered.origin == "tool" and answered.call_id == row.call_id
        assert renderer.decode(answered.token_ids) == row.result
    assert rows[0].tool_revision == rows[1].tool_revision != ""
    check(done, engine)


def streamed(chunks):
    """Deltas put together: role, text, calls, logprobs, reasons."""
    text, calls, scores, reasons, usage = "", {}, [], [], None
    for chunk in chunks:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                kept = calls.setdefault(call.index, {"id": None, "name": None, "arguments": ""})
                kept["id"] = call.id or kept["id"]
                kept["name"] = call.function.name or kept["name"]
                kept["arguments"] += call.function.arguments or ""
            scores += [] if choice.logprobs is None else choice.logprobs.content
            reasons += [choice.finish_reason] if choice.finish_reason else []
    return text, list(calls.values()), scores, reasons, usage


@pytest.mark.parametrize("calls", [(), ("Rome",), ("Rome", "Oslo")])
def test_streamed_deltas_are_the_whole_answer(renderer, calls):
    reply = letters(renderer, "It is so: <b>äöü</b> <tool", [call_of(town) for town in calls])
    engine = scripted([reply, reply])
    given = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": CHAT_TOOLS, "logprobs": True}
    seen = {}

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            seen["whole"] = await client.chat.completions.create(**given)
            stream = await client.chat.completions.create(**given, stream=True, stream_options={"include_usage": True})
            seen["chunks"] = [chunk async for chunk in stream]

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    whole = seen["whole"].choices[0]
    text, told, scores, reasons, usage = streamed(seen["chunks"])
    assert text == (whole.message.content or "")
    assert [(c["name"], c["arguments"]) for c in told] == [
        (c.function.name, c.function.arguments) for c in whole.message.tool_calls or []
    ]
    assert reasons == [whole.finish_reason]
    assert [(s.token, s.logprob) for s in scores] == [(s.token, s.logprob) for s in whole.logprobs.content]
    assert usage == seen["whole"].usage
    assert len([c for c in seen["chunks"] if c.choices and c.choices[0].delta.content]) > 1
    # Two requests for one place are two branches of it.
    assert {s.context for s in done.segments if s.origin == "policy"} == {0, 1}
    check(done, engine)


def test_logprobs_are_those_of_the_trajectory(renderer):
    engine = scripted([letters(renderer, "So be it.")])
    heard = []

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            heard.append(
                await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "x"}], logprobs=True
                )
            )

    done = live(renderer, agent, engine)
    (turn,) = [s for s in done.segments if s.origin == "policy"]
    items = heard[0].choices[0].logprobs.content
    assert [i.logprob for i in items] == turn.behavior_logprobs[:-1].tolist()
    assert [i.token for i in items] == [renderer.decode([i]) for i in turn.token_ids[:-1]]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_several_answers_are_branches_of_one_prompt_and_each_can_be_gone_on_with(renderer, is_streamed):
    replies = [letters(renderer, text) for text in ("one", "two", "three", "more")]
    engine = scripted(lambda request: replies[3 if request.token_ids.size > 60 else request.context])
    texts = []

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            messages = [{"role": "user", "content": "Three ideas?"}]
            if is_streamed:
                told = ["", "", ""]
                async for chunk in await client.chat.completions.create(model="m", messages=messages, n=3, stream=True):
                    for choice in chunk.choices:
                        told[choice.index] += choice.delta.content or ""
            else:
                answer = await client.chat.completions.create(model="m", messages=messages, n=3)
                told = [choice.message.content for choice in answer.choices]
            texts.extend(told)
            messages += [
                {"role": "assistant", "content": told[1]},
                {"role": "user", "content": "Say more of this one. " * 8},
            ]
            await client.chat.completions.create(model="m", messages=messages)

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert sorted(texts) == ["one", "three", "two"]
    sampled = [s for s in done.segments if s.origin == "policy"]
    assert [s.context for s in sampled] == [0, 1, 2, 1]
    assert len({s.parent for s in sampled[:3]}) == 1
    last = context_of(done, sampled[3].segment)
    assert list(replies[1].token_ids) == last[sampled[1].start : sampled[1].start + sampled[1].num_tokens]
    check(done, engine)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_stop_string_ends_the_text_and_not_the_tokens(renderer, is_streamed):
    reply = letters(renderer, "one two END")
    reply = type(reply)(token_ids=reply.token_ids[:-1], behavior_logprobs=reply.behavior_logprobs[:-1])
    engine = scripted([reply, letters(renderer, "ok")])
    told = []

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            messages = [{"role": "user", "content": "Count."}]
            given = {"model": "m", "messages": messages, "stop": ["END", "ENDE"]}
            if is_streamed:
                chunks = [c async for c in await client.chat.completions.create(**given, stream=True)]
                text, _, _, reasons, _ = streamed(chunks)
            else:
                choice = (await client.chat.completions.create(**given)).choices[0]
                text, reasons = choice.message.content, [choice.finish_reason]
            told.append((text, reasons))
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "Go on."}]
            await client.chat.completions.create(model="m", messages=messages)

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert told == [("one two ", ["stop"])]
    assert engine.requests[0].stop_strings == ("END", "ENDE")
    assert turns_of(done)[0] == reply.token_ids
    assert {s.context for s in done.segments} == {0}
    check(done, engine)


def test_one_call_at_a_time_ends_the_turn_behind_the_first(renderer):
    engine = scripted([letters(renderer, "", [call_of("Rome")])])

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            await client.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "x"}],
                tools=CHAT_TOOLS,
                parallel_tool_calls=False,
            )

    done = live(renderer, agent, engine)
    assert engine.requests[0].stop_strings == ("</tool_call>",)
    (row,) = done.tool_calls
    assert (row.status, row.result, row.answered_in) == ("refused", None, None)


def test_a_call_that_cannot_be_read_is_told_as_text_and_has_a_row(renderer):
    tokens = [int(i) for i in renderer.encode_turn("", [call_of("Rome")])]
    opening, closing = tokens[0], tokens[-2]
    reply = [opening, *(int(i) for i in renderer.encode_turn("{not JSON}")[:-1]), closing, renderer.turn_end_id]
    assert renderer.decode(reply[:-1]) == "<tool_call>{not JSON}</tool_call>"
    engine = scripted([reply, letters(renderer, "Sorry.")])
    told = []

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            messages = [{"role": "user", "content": "x"}]
            answer = (await client.chat.completions.create(model="m", messages=messages, tools=CHAT_TOOLS)).choices[0]
            told.append((answer.message.content, answer.message.tool_calls, answer.finish_reason))
            messages += [answer.message, {"role": "user", "content": "That was no JSON."}]
            await client.chat.completions.create(model="m", messages=messages, tools=CHAT_TOOLS)

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert told == [(renderer.decode(reply[:-1]), None, "stop")]
    (row,) = done.tool_calls
    assert (row.tool, row.status) == ("", "invalid_call") and row.answered_in is not None
    assert done.segments[row.answered_in].origin == "user"


def test_a_plain_function_with_the_blocking_client_runs_in_a_thread(renderer):
    engine = scripted([letters(renderer, "Hello.")])

    def agent(base_url, api_key, task):
        with OpenAI(base_url=base_url, api_key=api_key) as client:
            answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi."}])
        return {"said": answer.choices[0].message.content}

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert json.loads(done.artifacts["agent_result.json"]) == {"said": "Hello."}
