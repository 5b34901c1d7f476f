"""A restarted engine serves what was published, whole, whatever the learner has made of its weights since then."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.learner.state import copied_weights, named_weights, tensor_specs
from rollwright.record import Engine, EngineLostError, Sampling, ScoreRequest, WeightsManifest, ids
from rollwright.rollout import SystemClock
from rollwright.runtime.restarting import RestartingEngine, RestartRules
from rollwright.runtime.watchdog import Watchdog, WatchRules
from rollwright.runtime.weights import WeightChannel, WeightShelf
from tests.engines.small import draw, request_of, small_model

SETTINGS = EmbeddedSettings(num_slots=4, max_context_tokens=64, mode="fast")
RULES = RestartRules(first_wait_s=0.0, weights_wait_s=0.05)


class Learner:
    """Moves all of its weights, or the first of them alone, as an update that is half done has."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model

    def train(self) -> None:
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(1.5)

    def train_half(self) -> None:
        with torch.no_grad():
            next(iter(self.model.parameters())).mul_(1.5)

    def weights(self) -> Mapping[str, torch.Tensor]:
        return named_weights(self.model)

    def manifest(self, *, version: int, update: int) -> WeightsManifest:
        return WeightsManifest(
            policy="policy",
            version=version,
            update=update,
            kind="full",
            base_version=None,
            location=f"memory:{version}",
            tensors=tensor_specs(self.weights()),
        )


class Read(Mapping[str, object]):
    """What a reader gave; with the last tensor that is asked for, something happens."""

    def __init__(self, given: Mapping[str, object], happens: Callable[[], None]) -> None:
        self._given = given
        self._left = len(given)
        self._happens = happens

    def __getitem__(self, name: str) -> object:
        self._left -= 1
        if self._left == 0:
            self._happens()
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


class House:
    """A learner, a shelf of copies, and an engine that is made again, with what happens as weights are read."""

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self.learner = Learner(small_model("qwen3"))
        self.while_read: Callable[[], None] = lambda: None
        self.shelf = WeightShelf(keep=copied_weights)
        self.said: list[str] = []
        self.opened: list[Engine] = []
        watchdog = Watchdog(WatchRules(), SystemClock(), self.said.append)
        self.engine = RestartingEngine(self.open(0), self.open, RULES, watchdog)
        self.channel = WeightChannel(self.learner, self.engine, self.shelf, thread)

    def open(self, version: int) -> Engine:
        self.opened.append(open_engine(self.learner.model, SETTINGS, self._read))
        return self.opened[-1]

    def _read(self, manifest: WeightsManifest) -> Mapping[str, object]:
        return Read(self.shelf.read(manifest), lambda: self.while_read())

    async def lose(self) -> None:
        await self.opened[-1].close()
        with pytest.raises(EngineLostError):
            await draw(self.engine, request_of(1))


async def said_of(engine: Engine) -> tuple[np.ndarray, int]:
    """What an engine says of some tokens, and under which version."""
    request = ScoreRequest(
        policy="policy", token_ids=ids([1, 2, 3, 4, 5]), score_from=1, sampling=Sampling(), tensors={}
    )
    scores = await engine.score(request)
    return scores.logprobs, scores.policy_version


def lived(live: Callable[[House], object]) -> list[tuple[np.ndarray, int]]:
    """What the engine said of version 1 as it was published, and what it says after `live` cost it its life."""

    async def go() -> list[tuple[np.ndarray, int]]:
        with ThreadPoolExecutor(max_workers=1) as thread:
            house = House(thread)
            try:
                house.learner.train()
                await house.channel.publish(version=1, update=1)
                published = await said_of(house.engine)
                live(house)
                await house.lose()
                return [published, await said_of(house.engine)]
            finally:
                await house.engine.close()

    return asyncio.run(asyncio.wait_for(go(), 60))


def of_half_an_update(house: House) -> None:
    house.while_read = house.learner.train_half


def of_a_whole_update(house: House) -> None:
    house.learner.train()


@pytest.mark.parametrize("learning", [of_half_an_update, of_a_whole_update])
def test_an_engine_that_is_lost_while_the_learner_goes_on_comes_back_with_the_version_that_was_published(learning):
    (published, version), (restarted, again) = lived(learning)
    assert version == again == 1
    np.testing.assert_array_equal(published, restarted)


def test_a_publication_that_overtakes_a_restart_leaves_what_is_read_for_it_alone():
    def publish_over(house: House) -> None:
        def overtake() -> None:
            house.while_read = lambda: None
            house.learner.train()
            house.shelf.put("memory:2", house.learner.weights())

        house.while_read = overtake

    (published, version), (restarted, again) = lived(publish_over)
    assert version == again == 1
    np.testing.assert_array_equal(published, restarted)


def test_copied_weights_are_apart_from_the_model_and_tied_ones_stay_one():
    model = small_model("qwen3")
    before = tensor_specs(named_weights(model))
    kept = copied_weights(named_weights(model))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    assert tensor_specs(kept) == before
    assert kept["lm_head.weight"] is kept["model.embed_tokens.weight"]
