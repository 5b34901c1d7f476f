"""An episode whose turns were drawn by different weights says of each turn which."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
import pytest

from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.record import Action, Episode, StepResult, Task, context_segments
from rollwright.rollout import FixedClock, Limits, run_episode
from tests.engines.battery import manifest_of
from tests.engines.small import plain_logprobs
from tests.rollout.fakes import FakeEnvironment, FakeEpisode, observe, spec_of
from tests.rollout.test_swaps import model_of, stored

MODELS = [model_of(seed) for seed in range(3)]


@dataclass
class BetweenTurns(FakeEnvironment):
    """Something happens after each turn, before the next is asked for."""

    happens: Callable[[], Awaitable[None]] | None = None

    @asynccontextmanager
    async def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AsyncGenerator[Episode]:
        yield Interrupted(self)


class Interrupted(FakeEpisode):
    async def step(self, action: Action) -> StepResult:
        assert isinstance(self.environment, BetweenTurns) and self.environment.happens is not None
        await self.environment.happens()
        return await super().step(action)


@pytest.mark.row("S201")
def test_a_trajectory_mixes_policy_versions_by_turn_and_each_turn_records_the_one_that_drew_it(renderer):
    weights = [{name: t.detach().clone() for name, t in model.state_dict().items()} for model in MODELS]

    async def run():
        settings = EmbeddedSettings(num_slots=2, max_context_tokens=400, mode="fast")
        engine = open_engine(MODELS[0], settings, lambda manifest: weights[manifest.version])
        versions = iter((1, 2))

        async def publish():
            version = next(versions, None)
            if version is not None:
                await engine.load_weights(manifest_of(weights[version], version), "drain")

        steps = [observe("how many?"), observe("are you sure?"), observe("really?"), StepResult(observations=())]
        episode = await run_episode(
            spec_of(Limits(turn_tokens=20, cut_turn="go_on")),
            engines={"policy": engine},
            environment=BetweenTurns(steps, happens=publish),
            renderer=renderer,
            clock=FixedClock(),
        )
        await engine.close()
        return stored(episode)

    trajectory = asyncio.run(run())
    turns = [s for s in trajectory.segments if s.origin == "policy"]
    assert [(s.turn, s.policy_version, s.num_tokens) for s in turns] == [(0, 0, 20), (1, 1, 20), (2, 2, 20)]
    for segment, model in zip(turns, MODELS, strict=True):
        context = np.concatenate([s.token_ids for s in context_segments(trajectory.segments, segment.segment)])
        expected = plain_logprobs(model, context.tolist(), segment.start)
        assert np.asarray(segment.behavior_logprobs) == pytest.approx(expected, abs=1e-3)
