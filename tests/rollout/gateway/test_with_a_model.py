"""A model behind the gateway: what it drew is what was recorded, with the log-probabilities that it gives again."""

import asyncio

import httpx
import numpy as np
import pytest

from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.record import ScoreRequest, TerminalReason, context_segments, ids
from rollwright.rendering import RenderingError
from rollwright.rollout import SystemClock, submission_of
from rollwright.rollout.gateway import FunctionAgent, Gateway, GatewayEpisodes
from tests.engines.small import small_model
from tests.rollout.gateway.living import CHAT_TOOLS, openai_client, slots

SETTINGS = EmbeddedSettings(num_slots=16, max_context_tokens=768)
SYSTEM = {"role": "system", "content": "You are a careful assistant."}


async def compacting(base_url, api_key, task):
    """A harness of plain requests: turns, two answers at once, a summary in the place of its history."""
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {api_key}"}, timeout=60) as client:

        async def ask(messages, **more):
            body = {"model": "m", "messages": messages, "max_tokens": 24, "tools": CHAT_TOOLS, **more}
            answer = await client.post(f"{base_url}/chat/completions", json=body)
            assert answer.status_code == 200, answer.text
            return [choice["message"] for choice in answer.json()["choices"]]

        messages = [SYSTEM, {"role": "user", "content": "What is 20 * 3?"}]
        for number in range(3):
            (told,) = await ask(messages)
            messages.append(told)
            for call in told.get("tool_calls", []):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": "60"})
            messages.append({"role": "user", "content": f"And {number}?"})
        await ask(messages, n=2)
        kept = [m for m in messages if m["role"] == "assistant"][-1]
        if "tool_calls" not in kept:
            await ask([SYSTEM, {"role": "user", "content": "So far: 60."}, kept, {"role": "user", "content": "Go on."}])


async def streaming(base_url, api_key, task):
    """The first turns of the same, streamed."""
    messages = [SYSTEM, {"role": "user", "content": "What is 20 * 3?"}]
    async with openai_client(base_url, api_key) as client:
        text, calls = "", False
        stream = await client.chat.completions.create(
            model="m", messages=messages, max_tokens=24, tools=CHAT_TOOLS, stream=True
        )
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""
            calls = calls or bool(chunk.choices[0].delta.tool_calls)
        assert not calls
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And 0?"}]
        await client.chat.completions.create(model="m", messages=messages, max_tokens=24, tools=CHAT_TOOLS)


def size_of(renderer):
    """Tokens of the vocabulary."""
    for number in range(100_000):
        try:
            renderer.decode([number])
        except RenderingError:
            return number
    raise AssertionError("a vocabulary without end")


async def lived(renderer, agents, num_slots):
    """Episodes of several agents over one model, and the scores that the engine gives their tokens again."""
    model = small_model("qwen3", vocab_size=size_of(renderer))
    engine = open_engine(model, SETTINGS, lambda manifest: {}, renderer.decode)
    try:
        async with Gateway.listening(renderer) as gateway:
            lived = []
            for agent in agents:
                episodes = GatewayEpisodes(
                    gateway=gateway,
                    agent=FunctionAgent(function=agent, name="harness"),
                    engine=engine,
                    renderer=renderer,
                    clock=SystemClock(),
                )
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(episodes.run(spec)) for spec in slots(num_slots)]
                lived.append([task.result() for task in tasks])
        pairs = []
        for trajectory in lived[0]:
            for segment in trajectory.segments:
                if segment.origin == "policy" and segment.num_tokens:
                    path = context_segments(trajectory.segments, segment.segment)
                    whole = ids(np.concatenate([s.token_ids for s in path]))
                    request = ScoreRequest(
                        policy="policy",
                        token_ids=whole,
                        score_from=segment.start,
                        sampling=segment.sampling,
                        tensors={},
                    )
                    pairs.append((segment.behavior_logprobs, (await engine.score(request)).logprobs))
        return lived, pairs
    finally:
        await engine.close()


@pytest.mark.row("S115")
def test_a_harness_that_compacts_has_its_tokens_captured_with_their_logprobs(renderer):
    (first, again, streamed), pairs = asyncio.run(lived(renderer, [compacting, compacting, streaming], 2))
    for trajectory in (*first, *streamed):
        assert trajectory.terminal_reason is TerminalReason.MODEL_END, trajectory.failure_cause
    assert {s.origin for t in first for s in t.segments} >= {"task", "user", "replayed", "policy", "template"}
    assert max(s.context for t in first for s in t.segments) >= 2
    drawn, scored = (np.concatenate(values) for values in zip(*pairs, strict=True))
    assert len(drawn) > 200
    assert np.corrcoef(drawn, scored)[0, 1] > 0.99
    assert np.abs(drawn - scored).max() < 1e-4
    # Draws depend on the episode's seed, the context and the position: another run of the same agent gives the same.
    for one, two in zip(first, again, strict=True):
        assert [s.token_ids.tolist() for s in one.segments] == [s.token_ids.tolist() for s in two.segments]
        assert submission_of(one, renderer).passages == submission_of(two, renderer).passages
    # How a turn is told changes nothing of it.
    for one, two in zip(first, streamed, strict=True):
        turns = [[s.token_ids.tolist() for s in t.segments if s.origin == "policy"][:2] for t in (one, two)]
        assert turns[0] == turns[1]
