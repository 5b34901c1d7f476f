"""Agents that speak Chat Completions, by OpenAI's own client."""

import json

import pytest
from openai import AsyncOpenAI, OpenAI

from rollwright.record import TerminalReason
from tests.rollout.gateway.living import CHAT_TOOLS, call_of, check, context_of, letters, live, scripted, turns_of


def client_of(base_url, api_key):
    return AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0)


def test_a_conversation_keeps_its_tokens_and_has_only_what_is_new_rendered(renderer):
    replies = [letters(renderer, text) for text in ("It is 42.", "Yes, quite.")]
    engine = scripted(replies)
    heard = []

    async def agent(base_url, api_key, task):
        async with client_of(base_url, api_key) as client:
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
