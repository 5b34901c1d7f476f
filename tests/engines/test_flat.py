"""An embedded engine holds no more after many turns than after some, whatever its callers ask for."""

import asyncio
import gc
import sys
import tracemalloc
from itertools import pairwise

import pytest

from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.engines.embedded.batch import Batch
from tests.engines.battery import manifest_of
from tests.engines.small import VOCAB, draw, request_of, small_model

SETTINGS = EmbeddedSettings(num_slots=4, max_context_tokens=64, mode="fast")


def test_stop_sets_that_no_row_uses_are_forgotten():
    batch = Batch(2, 32, 5_000)
    tracemalloc.start()
    try:
        for number in range(400):
            batch.start(0, request_of(number, stop_token_ids=frozenset({number, number + 1})))
            batch.stop(0)
        assert tracemalloc.get_traced_memory()[0] < 100 * 5_000
    finally:
        tracemalloc.stop()


def test_a_row_keeps_its_stop_tokens_while_other_sets_come_and_go():
    model = small_model("qwen3")
    longest = request_of(0, max_tokens=48, stop_token_ids=frozenset({VOCAB - 1}), chunk_tokens=1)

    async def run(num_others):
        engine = open_engine(model, SETTINGS, lambda manifest: {})
        try:
            chunks = engine.generate(longest)
            drawn = [await anext(chunks)]
            for number in range(1, num_others + 1):
                stops = frozenset({number % 50, 50 + number % 13, 63 * (number % 2)})
                await draw(engine, request_of(number, max_tokens=1, stop_token_ids=stops))
                await engine.release(f"s{number}/0")
            drawn += [chunk async for chunk in chunks]
        finally:
            await engine.close()
        return [int(t) for chunk in drawn for t in chunk.token_ids], drawn[-1].finish

    assert asyncio.run(run(150)) == asyncio.run(run(0))


@pytest.mark.parametrize("family", ["qwen3", pytest.param("mistral", marks=pytest.mark.slow)])
def test_turns_sessions_and_publications_leave_nothing_behind(family):
    old, new = small_model(family), small_model(family, seed=1)
    weights = [{name: t.detach().clone() for name, t in model.state_dict().items()} for model in (old, new)]

    async def run():
        published = 0
        engine = open_engine(old, SETTINGS, lambda manifest: weights[manifest.version % 2])
        held = []
        try:
            for round_ in range(6):
                for number in range(60 * round_, 60 * (round_ + 1)):
                    turn = request_of(number, [1, 2, 3, number % VOCAB], max_tokens=4)
                    if number % 7 == 0:
                        chunks = engine.generate(turn)
                        await anext(chunks)
                        await chunks.aclose()  # pyright: ignore[reportAttributeAccessIssue] - a generator has it
                    else:
                        await draw(engine, turn)
                    await engine.release(turn.session)
                    if number % 20 == 0:
                        published += 1
                        manifest = manifest_of(weights[published % 2], published)
                        await engine.load_weights(manifest, "continue" if number % 40 else "recompute")
                gc.collect()
                held.append(sys.getallocatedblocks())
        finally:
            await engine.close()
        return held

    held = asyncio.run(run())
    # What a turn left behind would be there in every round; what others left is not.
    assert min(later - earlier for earlier, later in pairwise(held[1:])) < 60, held
