"""What anybody may send: it is answered in the shape of the API, and the episode goes on."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from rollwright.record import TerminalReason
from tests.rollout.gateway.living import letters, live, scripted

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Well?"}]}
RESPONSE = {"model": "m", "input": "Well?"}
MESSAGE: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Well?"}]}
PATHS = {"chat/completions": CHAT, "responses": RESPONSE, "messages": MESSAGE}
DEEP = "[" * 100 + "]" * 100
BROKEN_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def posting(path, bodies, answers):
    """An agent that sends bodies as they are, then one that is answered."""

    async def agent(base_url, api_key, task):
        headers = {"x-api-key": api_key, "content-type": "application/json"}
        async with httpx.AsyncClient(headers=headers, timeout=20) as client:
            for body in bodies:
                answers.append(await client.post(f"{base_url}/{path}", content=body))
            last = await client.post(f"{base_url}/{path}", json=PATHS[path])
            assert last.status_code == 200, last.text

    return agent


def refused(renderer, path, bodies):
    """Errors that bodies are refused with; the episode goes on behind them."""
    answers = []
    done = live(renderer, posting(path, bodies, answers), scripted([letters(renderer, "ok")]))
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert done.num_turns == 1
    assert json.loads(done.artifacts["gateway.json"])["requests"] == 1
    errors = []
    for answer in answers:
        body = answer.json()
        assert ("type" in body and body["type"] == "error") is (path == "messages")
        assert isinstance(body["error"]["message"], str) and isinstance(body["error"]["type"], str)
        errors.append((answer.status_code, body["error"]["message"]))
    return errors


def changed(body, **fields):
    return json.dumps({**body, **fields}).encode()


@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_json_object_is_a_400(renderer, path):
    bodies = [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b'{"model": NaN}',
        b'{"model": "m", "messages": 1e999}',
        b'{"n": ' + b"9" * 5000 + b"}",
        DEEP.encode(),
        ('{"messages": ' + DEEP + "}").encode(),
        ("[" * 100_000 + "]" * 100_000).encode(),
        b'{"model": "\\ud800"}',
    ]
    for status, message in refused(renderer, path, bodies):
        assert status == 400, message


@pytest.mark.parametrize("path", PATHS)
def test_wrong_types_and_unknown_fields_are_a_400_that_names_them(renderer, path):
    good = PATHS[path]
    bodies = {
        "model": changed(good, model=7),
        "temperature": changed(good, temperature="hot"),
        "stream": changed(good, stream="yes"),
        "tools": changed(good, tools={"name": "f"}),
        "tools[0]": changed(good, tools=[7]),
        "nonsense": changed(good, nonsense=1),
        "top_p": changed(good, top_p=7),
    }
    for name, (status, message) in zip(bodies, refused(renderer, path, list(bodies.values())), strict=True):
        assert status == 400 and name in message, message


def test_messages_of_wrong_shapes_are_a_400(renderer):
    shapes = [
        "text",
        [],
        [7],
        [{}],
        [{"role": "user", "content": 7}],
        [{"role": "king", "content": "x"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}],
        [{"role": "tool", "content": "x"}],
        [{"role": "assistant", "tool_calls": [{"id": "c", "type": "function"}]}],
        [
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}],
            }
        ],
        [{"role": "user", "content": "x"}] * 3000,
    ]
    for shape, (status, message) in zip(
        shapes, refused(renderer, "chat/completions", [changed(CHAT, messages=shape) for shape in shapes]), strict=True
    ):
        assert status == 400, (shape, message)


def test_what_the_policy_cannot_be_made_to_do_is_refused_by_name(renderer):
    chat = {
        "tool_choice": changed(CHAT, tools=[TOOL], tool_choice="required"),
        "response_format.type": changed(CHAT, response_format={"type": "json_object"}),
        "logit_bias": changed(CHAT, logit_bias={"5": 1}),
        "top_logprobs": changed(CHAT, logprobs=True, top_logprobs=5),
        "presence_penalty": changed(CHAT, presence_penalty=1.0),
        "stop": changed(CHAT, stop=["a", "b", "c", "d", "e"]),
        "n": changed(CHAT, n=0),
        "max_tokens": changed(CHAT, max_tokens=0),
    }
    for name, (status, message) in zip(chat, refused(renderer, "chat/completions", list(chat.values())), strict=True):
        assert status == 400 and f"'{name}'" in message, message
    messages = {
        "tool_choice.type": changed(MESSAGE, tool_choice={"type": "any"}),
        "max_tokens": json.dumps({k: v for k, v in MESSAGE.items() if k != "max_tokens"}).encode(),
        "messages": changed(MESSAGE, messages=[*MESSAGE["messages"], {"role": "assistant", "content": "It"}]),
        "tools[0].type": changed(MESSAGE, tools=[{"type": "bash_20250124", "name": "bash"}]),
    }
    for name, (status, message) in zip(messages, refused(renderer, "messages", list(messages.values())), strict=True):
        assert status == 400 and name in message, message
    responses = {
        "previous_response_id": changed(RESPONSE, previous_response_id="resp_7"),
        "input[0].type": changed(RESPONSE, input=[{"type": "item_reference", "id": "msg_7"}]),
        "background": changed(RESPONSE, background=True),
        "text.format.type": changed(RESPONSE, text={"format": {"type": "json_schema"}}),
    }
    answers = refused(renderer, "responses", list(responses.values()))
    for name, (status, message) in zip(responses, answers, strict=True):
        assert status == 400 and (name in message or name == "previous_response_id"), message


def test_what_changes_nothing_is_taken_as_the_apis_take_it(renderer):
    fields = {"user": "u", "metadata": {"a": "b"}, "store": False, "seed": 7, "service_tier": "auto", "logprobs": None}

    async def agent(base_url, api_key, task):
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {api_key}"}) as client:
            answer = await client.post(f"{base_url}/chat/completions", json={**CHAT, **fields})
            assert answer.status_code == 200, answer.text
            models = (await client.get(f"{base_url}/models")).json()
            assert [model["id"] for model in models["data"]] == ["policy"]

    done = live(renderer, agent, scripted([letters(renderer, "ok")]))
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause


def test_a_huge_body_is_refused_and_never_held(renderer):
    (found,) = refused(renderer, "chat/completions", [b" " * (17 << 20)])
    assert found[0] == 413


@pytest.mark.parametrize("headers", [{}, {"x-api-key": "wrong"}, {"authorization": "Bearer wrong"}, {"x-api-key": "é"}])
def test_without_the_key_of_the_episode_nothing_is_answered(renderer, headers):
    found = []

    async def agent(base_url, api_key, task):
        raw = {name: value.encode() for name, value in headers.items()}
        async with httpx.AsyncClient() as client:
            for path, body in PATHS.items():
                found.append(await client.post(f"{base_url}/{path}", json=body, headers=raw))
            found.append(await client.post(f"{base_url}/reward", json={"reward": 1}, headers=raw))
            good = {"x-api-key": api_key}
            assert (await client.post(f"{base_url}/responses", json=RESPONSE, headers=good)).status_code == 200

    done = live(renderer, agent, scripted([letters(renderer, "ok")]))
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert [answer.status_code for answer in found] == [401] * 4
    assert "outcome.json" not in done.artifacts
    assert found[2].json()["error"]["type"] == "authentication_error"


def test_paths_and_methods_that_are_not_there_are_errors_too(renderer):
    statuses = []

    async def agent(base_url, api_key, task):
        async with httpx.AsyncClient(headers={"x-api-key": api_key}) as client:
            for method, path in (("GET", "chat/completions"), ("POST", "embeddings"), ("POST", "nothing/at/all")):
                answer = await client.request(method, f"{base_url}/{path}")
                statuses.append((answer.status_code, answer.json()["error"]["code"]))
            await client.post(f"{base_url}/chat/completions", json=CHAT)

    live(renderer, agent, scripted([letters(renderer, "ok")]))
    assert statuses == [(405, "unknown_url"), (404, "unknown_url"), (404, "unknown_url")]


def test_a_body_that_breaks_off_and_one_that_never_comes_harm_nobody(renderer):
    async def agent(base_url, api_key, task):
        host, port = base_url.split("/")[2].split(":")
        head = f"POST /{base_url.split('/')[3]}/v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-api-key: {api_key}\r\n"
        for rest in ("content-length: 100\r\n\r\n{", "content-length: 100\r\n\r\n"):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write((head + rest).encode())
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.close()
            await writer.wait_closed()
        async with httpx.AsyncClient(headers={"x-api-key": api_key}) as client:
            assert (await client.post(f"{base_url}/chat/completions", json=CHAT)).status_code == 200

    done = live(renderer, agent, scripted([letters(renderer, "ok")]))
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause


@pytest.mark.parametrize("body", [{}, {"reward": "x"}, {"reward": True}, {"reward": 1e300}, {"reward": 1, "more": 2}])
def test_a_reward_that_is_no_number_within_bounds_is_refused(renderer, body):
    async def agent(base_url, api_key, task):
        async with httpx.AsyncClient(headers={"x-api-key": api_key}) as client:
            await client.post(f"{base_url}/chat/completions", json=CHAT)
            assert (await client.post(f"{base_url}/reward", json=body)).status_code == 400

    done = live(renderer, agent, scripted([letters(renderer, "ok")]))
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert "outcome.json" not in done.artifacts


def test_an_agent_that_is_refused_without_end_is_ended(renderer):
    async def agent(base_url, api_key, task):
        async with httpx.AsyncClient(headers={"x-api-key": api_key}) as client:
            while (await client.post(f"{base_url}/chat/completions", content=b"{")).status_code == 400:
                pass
            await client.post(f"{base_url}/chat/completions", json=CHAT)

    done = live(renderer, agent, scripted([letters(renderer, "ok")]))
    assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE
    assert "refused requests" in done.failure_cause
