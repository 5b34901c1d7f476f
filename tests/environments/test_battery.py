"""What every environment promises; a new one adds a row to `ENVIRONMENTS`."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import pytest

from rollwright.environments import (
    ArithmeticDemonstrator,
    ToolEnvironment,
    ToolLimits,
    calculator_tool,
    call_log,
    tool_of,
)
from rollwright.record import (
    Action,
    Environment,
    EnvironmentBrokenError,
    Episode,
    Message,
    Task,
    ToolRequest,
)
from rollwright.tasks import Payload, make_task


def task(question: str = "What is 6*7?", expression: str = "6*7") -> Task:
    payload = Payload(
        messages=(Message(role="user", text=question),), answer="42", info={"expression": expression, "slice": "hard"}
    )
    return make_task(payload, source="arithmetic", revision="r", split="train")


async def echo(word: str, times: int = 1) -> str:
    """Say a word again.

    Args:
        word: what to say
        times: how often
    """
    await asyncio.sleep(0)
    return " ".join([word] * times)


@dataclass(frozen=True, kw_only=True)
class Row:
    """An environment with calls that it answers."""

    make: Callable[[], Environment]
    calls: Sequence[tuple[str, str]]


ENVIRONMENTS = {
    "calculator": Row(
        make=lambda: ToolEnvironment(tools=[calculator_tool()], demonstrate=ArithmeticDemonstrator()),
        calls=[("calculator", '{"expression": "6*7"}'), ("calculator", '{"expression": "1/0"}'), ("calculator", "{")],
    ),
    "coroutine tool, log left": Row(
        make=lambda: ToolEnvironment(tools=[tool_of(echo)], system_prompt="Be brief.", artifacts=call_log),
        calls=[("echo", '{"word": "a", "times": 3}'), ("no_such", "{}")],
    ),
    "no tools": Row(make=lambda: ToolEnvironment(tools=[]), calls=[("any", "{}")]),
}


@pytest.fixture(params=list(ENVIRONMENTS.values()), ids=list(ENVIRONMENTS))
def row(request: pytest.FixtureRequest) -> Row:
    return request.param


async def played(episode: Episode, calls: Sequence[tuple[str, str]]) -> list[object]:
    """All that an episode says when it is played in a fixed way: one call a turn, then an answer."""
    said: list[object] = [await episode.begin()]
    for turn, (tool, arguments) in enumerate(calls):
        result = await episode.call(ToolRequest(call_id=f"c{turn}", tool=tool, arguments=arguments))
        said += [result, await episode.step(Action(actor="agent", turn=turn, text="", calls=(result,)))]
    said.append(await episode.step(Action(actor="agent", turn=len(calls), text="answer: 42", calls=())))
    return [*said, dict(await episode.artifacts()), await episode.snapshot()]


async def whole(environment: Environment, row: Row, *, seed: int = 5) -> list[object]:
    async with environment.open(task(), seed=seed) as episode:
        return await played(episode, row.calls)


def test_equal_seeds_and_actions_replay_exactly(row: Row) -> None:
    assert asyncio.run(whole(row.make(), row)) == asyncio.run(whole(row.make(), row))


def test_the_first_observation_holds_the_question_and_opens_one_turn(row: Row) -> None:
    async def scenario() -> None:
        environment = row.make()
        async with environment.open(task(), seed=0) as episode:
            started = await episode.begin()
        (observation,) = started.observations
        assert observation.actor in environment.actors
        assert observation.messages[-1] == Message(role="user", text="What is 6*7?")
        assert observation.state_hash is not None
        assert started.end is None

    asyncio.run(scenario())


def test_a_turn_without_a_call_ends_the_episode_without_a_verdict_of_its_own(row: Row) -> None:
    async def scenario() -> None:
        async with row.make().open(task(), seed=0) as episode:
            await episode.begin()
            ended = await episode.step(Action(actor="agent", turn=0, text="answer: 1", calls=()))
            assert ended.observations == ()
            assert ended.end is None
            assert ended.rewards == ()

    asyncio.run(scenario())


def test_episodes_that_run_side_by_side_share_nothing(row: Row) -> None:
    async def scenario() -> list[list[object]]:
        environment = row.make()
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(whole(environment, row), name=f"episode {n}") for n in range(20)]
        return [one.result() for one in running]

    alone = asyncio.run(whole(row.make(), row))
    assert all(one == alone for one in asyncio.run(scenario()))


def test_the_state_hash_sees_what_was_called(row: Row) -> None:
    async def scenario() -> None:
        async with row.make().open(task(), seed=0) as episode:
            first = (await episode.begin()).observations[0].state_hash
            request = ToolRequest(call_id="c0", tool=row.calls[0][0], arguments=row.calls[0][1])
            result = await episode.call(request)
            second = (await episode.step(Action(actor="agent", turn=0, text="", calls=(result,)))).observations[0]
            assert second.state_hash != first

    asyncio.run(scenario())


def test_an_episode_goes_on_from_its_snapshot_as_if_never_left(row: Row) -> None:
    async def scenario() -> None:
        environment = row.make()
        tool, arguments = row.calls[0]
        async with environment.open(task(), seed=5) as episode:
            await episode.begin()
            result = await episode.call(ToolRequest(call_id="c0", tool=tool, arguments=arguments))
            straight = await episode.step(Action(actor="agent", turn=0, text="", calls=(result,)))
            saved = await episode.snapshot()
        async with environment.open(task(), seed=5, snapshot=saved) as episode:
            again = await episode.begin()
            assert again.observations[0].state_hash == straight.observations[0].state_hash
            assert again.observations[0].messages == ()
            assert await episode.snapshot() == saved

    asyncio.run(scenario())


@pytest.mark.parametrize("saved", [b"", b"[]", b"{}", b"\xff", b'{"task_id":"x","seed":5,"calls":[]}'])
def test_a_snapshot_of_something_else_is_refused(row: Row, saved: bytes) -> None:
    async def scenario() -> None:
        async with row.make().open(task(), seed=5, snapshot=saved):
            raise AssertionError("it was opened")

    with pytest.raises(EnvironmentBrokenError, match="snapshot does not fit"):
        asyncio.run(scenario())


def test_a_cancelled_episode_leaves_no_task_behind(row: Row) -> None:
    async def scenario() -> None:
        async def endless() -> None:
            async with row.make().open(task(), seed=0) as episode:
                await episode.begin()
                for turn in count():
                    tool, arguments = row.calls[turn % len(row.calls)]
                    await episode.call(ToolRequest(call_id=f"c{turn}", tool=tool, arguments=arguments))
                    await asyncio.sleep(0)

        running = asyncio.create_task(endless(), name="endless")
        await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_the_revision_is_the_same_every_time_and_the_tools_are_fixed(row: Row) -> None:
    one, two = row.make(), row.make()
    assert one.revision == two.revision
    assert one.name == two.name

    async def scenario() -> None:
        async with one.open(task(), seed=0) as first, two.open(task(), seed=1) as second:
            assert dict(first.tools) == dict(second.tools)

    asyncio.run(scenario())


def test_a_task_that_cannot_be_read_is_the_environments_fault(row: Row) -> None:
    broken = Task(task_id="s/0", source="s", revision="r", split="train", payload="{}")

    async def scenario() -> None:
        async with row.make().open(broken, seed=0):
            raise AssertionError("it was opened")

    with pytest.raises(EnvironmentBrokenError, match="s/0"):
        asyncio.run(scenario())


def test_a_different_limit_prompt_or_tool_is_another_revision() -> None:
    revisions = {
        ToolEnvironment(tools=[calculator_tool()]).revision,
        ToolEnvironment(tools=[calculator_tool()], limits=ToolLimits(calls=2)).revision,
        ToolEnvironment(tools=[calculator_tool()], system_prompt="x").revision,
        ToolEnvironment(tools=[calculator_tool(), tool_of(echo)]).revision,
        ToolEnvironment(tools=[calculator_tool()], name="other").revision,
    }
    assert len(revisions) == 5
