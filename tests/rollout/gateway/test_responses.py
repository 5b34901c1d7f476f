"""Agents that speak Responses, by OpenAI's own client."""

import json

import pytest

from rollwright.record import TerminalReason
from tests.rendering.tokenizers_for_tests import qwen3_renderer
from tests.rollout.gateway.living import (
    RESPONSE_TOOLS,
    call_of,
    check,
    letters,
    live,
    openai_client,
    scripted,
    turns_of,
)


async def work(client, ways):
    """A loop with tools that goes on by items, or by the last response's id; and streamed or not."""
    by_id, is_streamed = "id" in ways, "streamed" in ways
    given = {"model": "m", "instructions": "Be kind.", "tools": RESPONSE_TOOLS}
    items = [{"role": "user", "content": "Rome and Oslo?"}]
    last = None
    while True:
        more = {"previous_response_id": last.id} if by_id and last is not None else {}
        if is_streamed:
            async with client.responses.stream(input=items, **given, **more) as stream:
                deltas = "".join([e.delta async for e in stream if e.type == "response.output_text.delta"])
                last = await stream.get_final_response()
                assert deltas == last.output_text
        else:
            last = await client.responses.create(input=items, **given, **more)
        calls = [item for item in last.output if item.type == "function_call"]
        if by_id:
            items = []
        items += [] if by_id else [item.model_dump(exclude_none=True) for item in last.output]
        for call in calls:
            town = json.loads(call.arguments)["town"]
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": f"{town}: sun"})
        if not calls:
            return last


@pytest.mark.parametrize("ways", ["items", "id", "items, streamed", "id, streamed"])
def test_calls_and_their_results_go_on_in_one_context(renderer, ways):
    replies = [letters(renderer, "Looking.", [call_of("Rome"), call_of("Oslo")]), letters(renderer, "Fine.")]
    engine = scripted(replies)
    ends = []

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            ends.append(await work(client, ways))

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert ends[0].output_text == "Fine." and ends[0].status == "completed"
    assert ends[0].usage.input_tokens == len(engine.requests[1].token_ids)
    assert turns_of(done) == [list(map(int, reply.token_ids)) for reply in replies]
    assert {s.context for s in done.segments} == {0}
    assert [(r.status, r.result) for r in done.tool_calls] == [("ok", "Rome: sun"), ("ok", "Oslo: sun")]
    check(done, engine)


@pytest.mark.parametrize("ways", ["items", "items, streamed"])
def test_reasoning_is_an_item_of_its_own(ways):
    renderer = qwen3_renderer()
    reply = [int(i) for i in renderer.encode_turn("Yes.", reasoning="Hm, hm. a < b")]
    engine = scripted([reply])
    ends = []

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            ends.append(await work(client, ways))

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    thought, said = ends[0].output
    assert (thought.type, thought.content[0].text) == ("reasoning", "Hm, hm. a < b")
    assert (said.type, said.content[0].text) == ("message", "Yes.")
    assert ends[0].usage.output_tokens_details.reasoning_tokens > 5


def test_an_answer_that_is_cut_is_incomplete(renderer):
    engine = scripted([letters(renderer, "A long story.")])
    ends = []

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            ends.append(await client.responses.create(model="m", input="Tell.", max_output_tokens=4))

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert ends[0].status == "incomplete" and ends[0].incomplete_details.reason == "max_output_tokens"
    assert ends[0].output_text == "A lo"


def test_logprobs_are_there_where_they_are_included(renderer):
    engine = scripted([letters(renderer, "So.")])
    ends = []

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            include = ["message.output_text.logprobs"]
            ends.append(await client.responses.create(model="m", input="x", include=include))

    done = live(renderer, agent, engine)
    (turn,) = [s for s in done.segments if s.origin == "policy"]
    found = ends[0].output[0].content[0].logprobs
    assert [item.logprob for item in found] == turn.behavior_logprobs[:-1].tolist()
