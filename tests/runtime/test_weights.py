"""The weight channel: a version serves whole or not at all, and a refusal says what serves on."""

import asyncio

import pytest

from rollwright.record import WeightsManifest
from rollwright.runtime.errors import RuntimeRunError
from rollwright.runtime.weights import WeightShelf
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
