"""An episode of a real engine that is stopped at a token goes on there, or on another engine, as if it had not been."""

import asyncio
from itertools import pairwise

import pytest

from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.record import Sampling, TerminalReason, Trajectory
from rollwright.rollout import FixedClock, Interruption, Leg, Limits, Parked, run_leg
from tests.rollout.fakes import spec_of
from tests.rollout.test_parking import Sums
from tests.rollout.test_swaps import model_of

TURN_TOKENS = 40
GREEDY = Sampling(temperature=0.0)
MODEL = model_of(3)


def worker():
    """An engine with a copy of the weights of its own."""
    settings = EmbeddedSettings(num_slots=2, max_context_tokens=1000, mode="fast")
    return open_engine(MODEL, settings, lambda manifest: {})


async def leg_on(engine, renderer, world, *, past: Parked | None, stop_after: int | None):
    """One attempt; it is superseded once the engine has drawn `stop_after` tokens more than it had."""
    interruption, before = Interruption(), engine.counters.drawn_tokens
    limits = Limits(turn_tokens=TURN_TOKENS, cut_turn="go_on", turns=10)
    spec = spec_of(limits, sampling=GREEDY, attempt=0 if past is None else past.trajectory.attempt + 1)

    async def stop(after: int):
        while engine.counters.drawn_tokens < before + after:  # noqa: ASYNC110 - a counter has no event
            await asyncio.sleep(0)
        await interruption.end(TerminalReason.SUPERSEDED)

    async with asyncio.TaskGroup() as group:
        episode = group.create_task(
            run_leg(
                Leg(spec=spec, past=past, when_superseded="park"),
                engines={"policy": engine},
                environment=world,
                renderer=renderer,
                clock=FixedClock(),
                interruption=interruption,
            )
        )
        stopper = None if stop_after is None else group.create_task(stop(stop_after))
        ended = await episode
        if stopper is not None:
            stopper.cancel()
    return ended


def drawn(trajectory: Trajectory) -> list[int]:
    return [int(t) for s in trajectory.segments if s.origin == "policy" for t in s.token_ids]


def uninterrupted(renderer) -> list[int]:
    async def run():
        engine = worker()
        ended = await leg_on(engine, renderer, Sums(turns=3), past=None, stop_after=None)
        await engine.close()
        return ended

    ended = asyncio.run(run())
    assert not isinstance(ended, Parked) and ended.terminal_reason is TerminalReason.MODEL_END
    tokens = drawn(ended)
    assert len(tokens) == 3 * TURN_TOKENS and len(set(tokens)) > 3
    return tokens


@pytest.mark.row("S241")
@pytest.mark.parametrize("takes_snapshots", [True, False])
def test_an_episode_preempted_at_a_token_goes_on_to_the_uninterrupted_greedy_sequence(renderer, takes_snapshots):
    whole = uninterrupted(renderer)

    async def run():
        engine, legs, past = worker(), [], None
        for stop_after in (3, 11, 50, None):
            ended = await leg_on(engine, renderer, world, past=past, stop_after=stop_after)
            if not isinstance(ended, Parked):
                break
            legs.append(past := ended)
        await engine.close()
        return legs, ended

    world = Sums(turns=3, takes_snapshots=takes_snapshots)
    legs, ended = asyncio.run(run())
    assert not isinstance(ended, Parked) and ended.terminal_reason is TerminalReason.MODEL_END
    assert legs and all(leg.is_interrupted for leg in legs)
    parts = [drawn(leg.trajectory) for leg in legs]
    assert parts[0] and all(longer[: len(shorter)] == shorter for shorter, longer in pairwise(parts))
    assert any(len(part) % TURN_TOKENS for part in parts), "one of the cuts was within a turn"
    assert drawn(ended) == whole


@pytest.mark.row("S266")
def test_a_long_episode_that_is_moved_ends_on_another_worker_with_identical_tokens(renderer):
    whole = uninterrupted(renderer)

    async def run():
        first, second = worker(), worker()
        parked = await leg_on(first, renderer, world, past=None, stop_after=TURN_TOKENS + 7)
        await first.close()
        assert isinstance(parked, Parked)
        ended = await leg_on(second, renderer, world, past=parked, stop_after=None)
        counted = second.counters
        await second.close()
        return parked, ended, counted

    world = Sums(turns=3)
    parked, ended, counted = asyncio.run(run())
    assert not isinstance(ended, Parked) and ended.terminal_reason is TerminalReason.MODEL_END
    assert drawn(ended) == whole
    # The other worker computed the context anew, and drew only what was left.
    assert counted.drawn_tokens == len(whole) - len(drawn(parked.trajectory))
    assert 0 < counted.drawn_tokens < len(whole) and counted.prefilled_tokens > 0
