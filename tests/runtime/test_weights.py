"""The weight channel: a version serves whole or not at all, and a refusal says what serves on."""

import asyncio

import pytest

from rollwright.engines import PlayedEngine, ScriptedEngine
from rollwright.record import WeightsManifest
from rollwright.runtime.errors import RuntimeRunError
from rollwright.runtime.weights import PublicationRule, WeightChannel, WeightShelf
from tests.engines.small import request_of
from tests.runtime.loops import end, make_world


@pytest.fixture
def world(tmp_path):
    made = make_world(tmp_path / "run", refused_versions=frozenset({1}))
    yield made
    end(made)


def manifest_at(location):
    return WeightsManifest(
        policy="policy", version=0, update=0, kind="full", base_version=None, location=location, tensors=()
    )


def test_a_version_is_published_once(world):
    async def go():
        for _ in range(3):
            await world.channel.publish(version=0, update=0)

    asyncio.run(go())
    assert world.log == [("publish", 0)] and world.channel.published == 0


def test_a_refused_load_is_one_error_and_the_old_version_serves_on(world):
    async def go():
        await world.channel.publish(version=0, update=0)
        with pytest.raises(RuntimeRunError) as caught:
            await world.channel.publish(version=1, update=0)
        return str(caught.value)

    sentence = asyncio.run(go())
    assert "did not take the weights of version 1" in sentence and "version 0 still serves" in sentence
    assert "rollwright resume" in sentence
    assert world.channel.published == 0


def test_after_a_refusal_a_later_version_can_be_published(world):
    async def go():
        with pytest.raises(RuntimeRunError):
            await world.channel.publish(version=1, update=0)
        await world.channel.publish(version=2, update=0)

    asyncio.run(go())
    assert world.channel.published == 2


def channel_of(world, refused, **rule):
    heard = []
    engine = ScriptedEngine(lambda request: (), refused_versions=frozenset(refused))
    channel = WeightChannel(
        world.learner, engine, WeightShelf(), world.thread, rule=PublicationRule(**rule), warn=heard.append
    )
    return channel, engine, heard


def test_refusals_that_are_let_pass_are_said_and_the_old_version_is_what_is_reported(world):
    channel, _, heard = channel_of(world, {1, 2, 4}, tolerated_refusals=2)

    async def go():
        return [await channel.publish(version=version, update=0) for version in range(6)]

    assert asyncio.run(go()) == [0, 0, 0, 3, 3, 5]
    assert channel.published == 5
    assert [("version 0 still serves" in s, "version 3 still serves" in s) for s in heard] == [
        (True, False), (True, False), (False, True),
    ]  # fmt: skip
    assert "refusal 2 of 2" in heard[1] and "refusal 1 of 2" in heard[2]


def test_one_refusal_more_than_are_let_pass_is_an_error_and_the_old_version_serves_on(world):
    channel, _, heard = channel_of(world, {1, 2, 3}, tolerated_refusals=2)

    async def go():
        for version in range(3):
            await channel.publish(version=version, update=0)
        with pytest.raises(RuntimeRunError, match=r"version 0 still serves, after 2 refusals in a row"):
            await channel.publish(version=3, update=0)

    asyncio.run(go())
    assert channel.published == 0 and len(heard) == 2


def test_a_refused_version_is_tried_again_where_it_is_asked_for_again(world):
    channel, engine, _ = channel_of(world, set(), tolerated_refusals=1)

    async def go():
        await channel.publish(version=0, update=0)
        refused, engine.refused = engine.refused, frozenset({1})
        assert await channel.publish(version=1, update=0) == 0
        engine.refused = refused
        assert await channel.publish(version=1, update=0) == 1

    asyncio.run(go())


def test_a_lost_engine_is_no_refusal_that_could_be_let_pass(world):
    channel, engine, heard = channel_of(world, set(), tolerated_refusals=5)

    async def go():
        await channel.publish(version=0, update=0)
        await engine.close()
        with pytest.raises(RuntimeRunError, match="closed"):
            await channel.publish(version=1, update=0)

    asyncio.run(go())
    assert not heard


@pytest.mark.parametrize("swap", ["drain", "continue", "recompute"])
def test_the_channel_publishes_by_the_swap_that_it_was_made_with(world, swap):
    engine = ScriptedEngine(lambda request: [5] * 40)
    channel = WeightChannel(world.learner, engine, WeightShelf(), world.thread, rule=PublicationRule(swap=swap))

    async def go():
        stream = engine.generate(request_of(1, max_tokens=40, chunk_tokens=16))
        chunks = [await anext(stream)]
        async with asyncio.TaskGroup() as group:
            publishing = group.create_task(channel.publish(version=1, update=0))
            if swap != "drain":
                await publishing
            chunks += [chunk async for chunk in stream]
        return chunks[-1].policy_version, chunks[-1].cache_version

    assert asyncio.run(go()) == {"drain": (0, 0), "continue": (1, 0), "recompute": (1, 1)}[swap]
    assert channel.published == 1


def test_a_swap_that_the_engine_does_not_have_is_refused_before_anything_runs(world):
    with pytest.raises(RuntimeRunError, match=r"'drain'.*has \[\]"):
        WeightChannel(world.learner, PlayedEngine([[0]]), WeightShelf(), world.thread)


def test_refusals_that_nobody_would_hear_of_are_not_let_pass(world):
    with pytest.raises(RuntimeRunError, match="nobody would hear"):
        WeightChannel(
            world.learner, world.engine, WeightShelf(), world.thread, rule=PublicationRule(tolerated_refusals=1)
        )
    with pytest.raises(RuntimeRunError, match="the first stops the run"):
        PublicationRule(tolerated_refusals=-1)


def test_a_publication_that_was_cut_off_is_known_to_be_unknown_and_made_again(world):
    engine = ScriptedEngine(lambda request: [5] * 4, version=0)
    channel = WeightChannel(world.learner, engine, WeightShelf(), world.thread)

    async def go():
        await channel.publish(version=0, update=0)
        stream = engine.generate(request_of(1, max_tokens=4, chunk_tokens=1))
        await anext(stream)
        publishing = asyncio.ensure_future(channel.publish(version=1, update=0))
        while not world.log or world.log[-1] != ("publish", 1):  # noqa: ASYNC110 - a log has no event
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
        assert channel.published is None
        await stream.aclose()  # pyright: ignore[reportAttributeAccessIssue] - a generator has it
        assert await channel.publish(version=1, update=0) == 1

    asyncio.run(go())


def test_digests_and_weights_are_both_read_in_the_learners_thread(world):
    asyncio.run(world.channel.publish(version=0, update=0))
    assert {name.split("_")[0] for name in world.learner.threads} == {"learner"}


def test_the_shelf_holds_the_newest_weights_alone():
    shelf = WeightShelf()
    shelf.put("memory:0", {"a": 0})
    shelf.put("memory:1", {"a": 1})
    assert shelf.read(manifest_at("memory:1")) == {"a": 1}
    with pytest.raises(KeyError):
        shelf.read(manifest_at("memory:0"))
