"""Episodes of agents that tests write, before an engine that is scripted."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from rollwright.engines import Reply, ScriptedEngine, replies_in_order
from rollwright.record import Engine, Trajectory, context_segments
from rollwright.rollout import Limits, SystemClock
from rollwright.rollout.gateway import FunctionAgent, Gateway, GatewayEpisodes
from tests.rollout.fakes import spec_of

ROOM = Limits(turns=64, turn_tokens=200, episode_tokens=8000, context_tokens=4000, wall_clock_s=600.0)
WEATHER = {
    "name": "weather",
    "description": "The weather of a town.",
    "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
}
CHAT_TOOLS = [{"type": "function", "function": WEATHER}]
RESPONSE_TOOLS = [{"type": "function", **WEATHER}]
MESSAGE_TOOLS = [{"name": "weather", "description": "The weather of a town.", "input_schema": WEATHER["parameters"]}]


def openai_client(base_url, api_key) -> Any:
    """OpenAI's own client, which takes what tests write."""
    return AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0)


def anthropic_client(base_url, api_key) -> Any:
    """Anthropic's own."""
    return AsyncAnthropic(base_url=base_url, api_key=api_key, max_retries=0)


def letters(renderer, text, calls=()) -> Any:
    """A turn letter by letter: ids that no tokenizer would give for the text, each with a logprob of its own."""
    token_ids = [int(renderer.encode_turn(letter)[0]) for letter in text]
    if calls:
        token_ids += [int(token) for token in renderer.encode_turn("x", calls)][1:]
    else:
        token_ids.append(renderer.turn_end_id)
    scores = -(np.asarray(token_ids, dtype=np.float32) + 1) / 1000
    return Reply(token_ids=token_ids, behavior_logprobs=scores)


def call_of(town):
    """A call of the tool."""
    return ("weather", json.dumps({"town": town}))


def scripted(replies: Any, **more) -> ScriptedEngine:
    """An engine that gives replies in order, or by a function of the request."""
    script: Any = replies if callable(replies) else replies_in_order(replies)
    return ScriptedEngine(script, **more)


def live(renderer, agent, engine: Engine, *, limits=ROOM, **more) -> Any:
    """One episode of an agent: a function of (base_url, api_key, task), or an `Agent`."""
    return live_all(renderer, agent, engine, specs=[spec_of(limits)], **more)[0]


def live_all(renderer, agent, engine: Engine, *, specs, interruption=None, **more) -> Any:
    """Several episodes at once, behind one server."""

    async def run() -> list[Trajectory]:
        before = asyncio.all_tasks()
        async with Gateway.listening(renderer) as gateway:
            episodes = GatewayEpisodes(
                gateway=gateway,
                agent=agent if hasattr(agent, "run") else FunctionAgent(function=agent, name="test"),
                engine=engine,
                renderer=renderer,
                clock=SystemClock(),
                **more,
            )
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(episodes.run(spec, interruption)) for spec in specs]
        assert asyncio.all_tasks() == before, "tasks were left behind"
        return [task.result() for task in tasks]

    return asyncio.run(run())


def beside(renderer, use: Callable[[Gateway], Awaitable[None]]) -> None:
    """Something with a gateway that is no whole episode."""

    async def run() -> None:
        async with Gateway.listening(renderer) as gateway:
            await use(gateway)

    asyncio.run(run())


def turns_of(trajectory):
    """What was sampled: ids a turn, in the order of writing."""
    turns = {}
    for segment in trajectory.segments:
        if segment.origin == "policy":
            turns.setdefault(segment.turn, []).extend(segment.token_ids.tolist())
    return list(turns.values())


def context_of(trajectory, segment):
    """All tokens before a segment, and its own."""
    return [int(i) for s in context_segments(trajectory.segments, segment) for i in s.token_ids]


def check(trajectory, engine):
    """Every sampled token stands behind exactly what the engine was sent, with what the engine said of it."""
    contexts = [request.token_ids.tolist() for request in engine.requests]
    for segment in trajectory.segments:
        if segment.origin == "policy":
            whole = context_of(trajectory, segment.segment)
            assert whole[: len(whole) - segment.num_tokens] in contexts
            assert np.allclose(segment.behavior_logprobs, -(segment.token_ids.astype(np.float32) + 1) / 1000)


def slots(count, limits=ROOM):
    """Attempts of one group."""
    return [replace(spec_of(limits), slot=slot) for slot in range(count)]
