"""Tools of real MCP servers: one that is started for its episode, one that listens on the loopback."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rollwright.environments import EnvironmentSetupError, McpEnvironment, McpServer, McpSettings, ToolLimits
from rollwright.record import Action, EnvironmentBrokenError, Message, NotSnapshottableError, ToolRequest
from rollwright.tasks import Payload, make_task

SERVER = str(Path(__file__).with_name("mcp_server.py"))
STDIO = McpServer(command=(sys.executable, SERVER))
TASK = make_task(
    Payload(messages=(Message(role="user", text="Keep a."),), answer="a", info={}),
    source="shelf",
    revision="1",
    split="train",
)
SETTINGS = McpSettings(limits=ToolLimits(calls=8, call_timeout_s=20.0, result_characters=60))


def children() -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(stat[1]) == os.getpid() and stat[0] != "Z":
                found.add(int(entry.name))
    return found


@pytest.fixture(scope="module")
def stdio():
    environment = McpEnvironment(STDIO, SETTINGS)
    yield environment
    environment.close()


@pytest.fixture(scope="module")
def http():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, SERVER, "--http", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the server does not listen"
        settings = McpSettings(connection="shared", tools=("keep", "wait"), limits=SETTINGS.limits)
        environment = McpEnvironment(McpServer(url=f"http://127.0.0.1:{port}/mcp"), settings)
        yield environment
        environment.close()
    finally:
        process.kill()
        process.wait()


def ask(tool, arguments, number=0):
    return ToolRequest(call_id=f"c{number}", tool=tool, arguments=arguments)


@asynccontextmanager
async def begun(environment):
    async with environment.open(TASK, seed=0) as episode:
        await episode.begin()
        yield episode


def test_schemas_are_the_servers_and_calls_are_answered_in_an_episode_of_their_own(stdio):
    before = children()

    async def scenario():
        async with begun(stdio) as episode:
            said = [
                await episode.call(ask("keep", '{"word": "a", "times": 2}')),
                await episode.call(ask("keep", '{"word": "b"}')),
                await episode.call(ask("fail", '{"reason": "no such shelf"}')),
                await episode.call(ask("keep", '{"times": 2}')),
                await episode.call(ask("keep", '{"word": 3}')),
                await episode.call(ask("steal", "{}")),
                await episode.call(ask("flood", '{"characters": 500}')),
            ]
            assert len(children() - before) == 1
            with pytest.raises(NotSnapshottableError):
                await episode.snapshot()
            turn = await episode.step(Action(actor="agent", turn=0, text="", calls=tuple(said)))
            assert turn.observations[0].state_hash
            assert (await episode.step(Action(actor="agent", turn=1, text="done", calls=()))).observations == ()
            limits = [(await episode.call(ask("keep", '{"word": "c"}'))).status for _ in range(2)]
        return said, limits

    assert set(stdio.tools) == {"keep", "fail", "wait", "flood", "leave"}
    assert '"required":["word"]' in stdio.tools["keep"]
    assert "Keep a word" in stdio.tools["keep"]
    said, limits = asyncio.run(scenario())
    assert [s.status for s in said] == ["ok", "ok", "tool_error", "invalid_call", "invalid_call", "invalid_call", "ok"]
    assert said[1].text == "a a b"
    assert "no such shelf" in said[2].text
    assert "'word' is a required property" in said[3].text
    assert "argument word: 3 is not of type 'string'" in said[4].text
    assert "characters cut" in said[6].text
    assert limits == ["ok", "limit"]
    assert not children() - before


def test_a_server_that_ends_breaks_its_own_episode_and_leaves_no_process(stdio):
    before = children()

    async def scenario():
        async with begun(stdio) as episode:
            fresh = await episode.call(ask("keep", '{"word": "z"}'))
            assert fresh.text == "z", "what another episode kept"
            await episode.call(ask("leave", "{}"))

    with pytest.raises(EnvironmentBrokenError, match="MCP server"):
        asyncio.run(scenario())
    assert not children() - before


def test_a_cancelled_episode_ends_its_server(stdio):
    before = children()

    async def scenario():
        async def slow():
            async with begun(stdio) as episode:
                await episode.call(ask("wait", '{"seconds": 600}'))

        running = asyncio.create_task(slow(), name="slow")
        while not children() - before:  # noqa: ASYNC110 - a process that starts is no event of this loop
            await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
    deadline = time.monotonic() + 30
    while children() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not children() - before


def test_one_connection_over_http_serves_episodes_at_once_and_from_several_loops(http):
    async def one(word):
        async with begun(http) as episode:
            return await episode.call(ask("keep", f'{{"word": "{word}"}}'))

    async def both():
        return await asyncio.gather(one("p"), one("q"))

    assert set(http.tools) == {"keep", "wait"}
    results = [*asyncio.run(both()), asyncio.run(one("r"))]
    assert [r.status for r in results] == ["ok"] * 3
    assert sorted(results[2].text.split()) == ["p", "q", "r"]


def test_calls_in_parallel_are_answered_each_and_a_slow_one_times_out(http):
    quick = McpEnvironment(
        http._connections._server,
        McpSettings(connection="shared", limits=ToolLimits(call_timeout_s=4.0)),
    )

    async def scenario():
        async with begun(quick) as episode:
            calls = [ask("wait", f'{{"seconds": {seconds}}}', n) for n, seconds in enumerate((600, 0, 0))]
            return await asyncio.gather(*[episode.call(call) for call in calls])

    try:
        results = asyncio.run(scenario())
    finally:
        quick.close()
    assert [(r.call_id, r.status) for r in results] == [("c0", "timeout"), ("c1", "ok"), ("c2", "ok")]


def test_a_server_that_cannot_be_had_is_refused_with_how_it_was_asked():
    with pytest.raises(EnvironmentSetupError, match="no_such_program"):
        McpEnvironment(McpServer(command=("no_such_program",)))
    with pytest.raises(EnvironmentSetupError, match="a command or a url"):
        McpServer()


def odd(kind):
    return McpEnvironment(McpServer(command=(sys.executable, str(Path(SERVER).with_name("odd_mcp_server.py")), kind)))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("no_type", "tool 't' has no schema.*nonsense"),
        ("no_number", "tool 't' has no schema.*JSON"),
        ("unbounded_key", "tool 't' has no schema.*patternProperties and unevaluatedProperties"),
        ("two_of_one_name", "two tools of one name: t"),
    ],
)
def test_a_server_whose_tools_cannot_be_used_is_refused_by_their_name_and_left_behind(kind, words):
    before = children()
    with pytest.raises(EnvironmentSetupError, match=words):
        odd(kind)
    assert not children() - before


@pytest.mark.parametrize("kind", ["no_target", "far_target"])
def test_a_schema_that_leads_nowhere_breaks_the_episode_and_fetches_nothing(kind):
    environment = odd(kind)

    async def scenario():
        async with begun(environment) as episode:
            await episode.call(ask("t", '{"a": 1}'))

    try:
        with pytest.raises(EnvironmentBrokenError, match="schema of the MCP server's tool 't' cannot be followed"):
            asyncio.run(scenario())
    finally:
        environment.close()


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("slow_pattern", ({"a": "a" * 40 + "b"}, {"a": "b"}, {"a": "aa"})),
        ("slow_key", ({"a" * 40 + "b": ""}, {"b": ""}, {"aa": ""})),
        ("slow_key", ({f"{place}{'a' * 40}b": "" for place in range(400)}, {"aa": 1}, {"aa": ""})),
    ],
)
def test_a_text_or_key_on_which_a_servers_pattern_would_not_end_is_an_invalid_call(kind, arguments):
    environment = odd(kind)

    async def scenario():
        async with begun(environment) as episode:
            return [await episode.call(ask("t", json.dumps(given), 0)) for given in arguments]

    try:
        assert [result.status for result in asyncio.run(scenario())] == ["invalid_call", "invalid_call", "ok"]
    finally:
        environment.close()
