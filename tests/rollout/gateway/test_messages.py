"""Agents that speak Messages, by Anthropic's own client."""

import pytest

from rollwright.record import TerminalReason
from tests.rendering.tokenizers_for_tests import qwen3_renderer
from tests.rollout.gateway.living import (
    MESSAGE_TOOLS,
    anthropic_client,
    call_of,
    check,
    letters,
    live,
    openai_client,
    scripted,
    turns_of,
)


async def create(client, ways, **given):
    """One message, streamed or not."""
    if ways != "streamed":
        return await client.messages.create(**given)
    async with client.messages.stream(**given) as stream:
        text = "".join([part async for part in stream.text_stream])
        whole = await stream.get_final_message()
    assert text == "".join(block.text for block in whole.content if block.type == "text")
    return whole


async def work(client, ways, **more):
    """A loop with tools; the second result is an error."""
    messages: list[object] = [{"role": "user", "content": "Rome and Oslo?"}]
    while True:
        given = {"model": "m", "max_tokens": 150, "system": "Be kind.", "messages": messages, "tools": MESSAGE_TOOLS}
        answer = await create(client, ways, **given, **more)
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return answer
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": [{"type": "text", "text": f"{call.input['town']}: sun"}],
                "is_error": call.input["town"] == "Oslo",
            }
            for call in calls
        ]
        messages.append({"role": "user", "content": [*results, {"type": "text", "text": "And now?"}]})


@pytest.mark.parametrize("base", ["the root", "the base of OpenAI"])
@pytest.mark.parametrize("ways", ["whole", "streamed"])
def test_calls_and_their_results_go_on_in_one_context(renderer, ways, base):
    replies = [letters(renderer, "Looking.", [call_of("Rome"), call_of("Oslo")]), letters(renderer, "Fine.")]
    engine = scripted(replies)
    ends = []

    async def agent(base_url, api_key, task):
        address = base_url if base == "the base of OpenAI" else base_url.removesuffix("/v1")
        async with anthropic_client(address, api_key) as client:
            ends.append(await work(client, ways))

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert [block.text for block in ends[0].content] == ["Fine."] and ends[0].stop_reason == "end_turn"
    assert ends[0].usage.input_tokens == len(engine.requests[1].token_ids)
    assert turns_of(done) == [list(map(int, reply.token_ids)) for reply in replies]
    assert {s.context for s in done.segments} == {0}
    assert [(r.status, r.result) for r in done.tool_calls] == [("ok", "Rome: sun"), ("tool_error", "Oslo: sun")]
    check(done, engine)


@pytest.mark.parametrize("ways", ["whole", "streamed"])
@pytest.mark.parametrize("thinking", [None, {"type": "enabled", "budget_tokens": 1024}])
def test_thinking_is_shown_where_it_is_asked_for_and_its_tokens_stay_either_way(ways, thinking):
    renderer = qwen3_renderer()
    turns = [renderer.encode_turn("So.", [call_of("Rome")], reasoning="Hm."), renderer.encode_turn("Fine.")]
    engine = scripted([[int(i) for i in turn] for turn in turns])
    more = {} if thinking is None else {"thinking": thinking}

    async def agent(base_url, api_key, task):
        async with anthropic_client(base_url, api_key) as client:
            first = await create(
                client,
                ways,
                model="m",
                max_tokens=2000,
                messages=[{"role": "user", "content": "x"}],
                tools=MESSAGE_TOOLS,
                **more,
            )
            kinds = [block.type for block in first.content]
            assert kinds == ["text", "tool_use"] if thinking is None else ["thinking", "text", "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": first.content[-1].id, "content": "sun"}]
            messages = [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": first.content},
                {"role": "user", "content": results},
            ]
            await create(client, ways, model="m", max_tokens=2000, messages=messages, tools=MESSAGE_TOOLS, **more)

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert turns_of(done) == [turn.tolist() for turn in turns]
    assert {s.context for s in done.segments} == {0}
    start = len(engine.requests[0].token_ids)
    assert engine.requests[1].token_ids[start : start + len(turns[0])].tolist() == turns[0].tolist()


@pytest.mark.parametrize("ways", ["whole", "streamed"])
def test_a_stop_sequence_is_named(renderer, ways):
    reply = letters(renderer, "one END")
    engine = scripted([type(reply)(token_ids=reply.token_ids[:-1])])
    ends = []

    async def agent(base_url, api_key, task):
        async with anthropic_client(base_url, api_key) as client:
            messages = [{"role": "user", "content": "x"}]
            given = {"model": "m", "max_tokens": 64, "messages": messages, "stop_sequences": ["END"]}
            ends.append(await create(client, ways, **given))

    live(renderer, agent, engine)
    assert (ends[0].stop_reason, ends[0].stop_sequence) == ("stop_sequence", "END")
    assert ends[0].content[0].text == "one "


def test_tokens_are_counted_and_nothing_is_drawn(renderer):
    engine = scripted([letters(renderer, "ok")])
    counts = []

    async def agent(base_url, api_key, task):
        async with anthropic_client(base_url, api_key) as client:
            given = {"model": "m", "messages": [{"role": "user", "content": "How long?"}], "tools": MESSAGE_TOOLS}
            counts.append((await client.messages.count_tokens(**given)).input_tokens)
            assert not engine.requests
            await client.messages.create(max_tokens=9, **given)

    live(renderer, agent, engine)
    assert counts == [len(engine.requests[0].token_ids)]


def test_all_three_apis_render_a_conversation_alike(renderer):
    from tests.rollout.gateway.living import CHAT_TOOLS, RESPONSE_TOOLS

    engine = scripted(lambda request: letters(renderer, "ok"))

    async def agent(base_url, api_key, task):
        async with anthropic_client(base_url, api_key) as client, openai_client(base_url, api_key) as other:
            said = [{"role": "user", "content": "Well?"}]
            system = [{"role": "system", "content": "Be kind."}]
            await client.messages.create(model="m", max_tokens=9, system="Be kind.", messages=said, tools=MESSAGE_TOOLS)
            await other.chat.completions.create(model="m", messages=system + said, tools=CHAT_TOOLS)
            await other.responses.create(model="m", instructions="Be kind.", input="Well?", tools=RESPONSE_TOOLS)

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    first, *rest = (request.token_ids.tolist() for request in engine.requests)
    assert rest == [first, first]
    assert len([s for s in done.segments if s.origin == "task"]) == 2
