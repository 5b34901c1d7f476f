"""A group's prompt is computed once, and nothing is shared that should not be."""

import asyncio

import numpy as np
import pytest

from rollwright.engines.embedded import EmbeddedSettings, open_engine
from tests.engines.small import VOCAB, draw, draw_all, request_of, small_model

MODEL = small_model("qwen3")
PROMPT = np.random.default_rng(0).integers(0, VOCAB, 37)


def opened(num_slots=16):
    settings = EmbeddedSettings(num_slots=num_slots, max_context_tokens=300)
    return open_engine(MODEL, settings, lambda manifest: {})


def group_of(size, share, first=0, prompt=PROMPT):
    return [
        request_of(first + n, prompt, share=share or f"own-{n}", seed=n, max_tokens=12, stop_token_ids=frozenset())
        for n in range(size)
    ]


def same(first, second):
    return all(
        a.token_ids == b.token_ids and np.array_equal(a.logprobs, b.logprobs)
        for a, b in zip(first, second, strict=True)
    )


@pytest.mark.row("S246")
def test_a_group_computes_its_prompt_once_and_draws_as_if_each_had_computed_it():
    async def run():
        shared, uncached = opened(), opened()
        size, length = 8, len(PROMPT)
        found = await draw_all(shared, group_of(size, "g"))
        expected = await draw_all(uncached, group_of(size, ""))
        assert shared.counters.prefilled_tokens == length
        assert shared.counters.copied_tokens == length * (size - 1)
        assert uncached.counters.prefilled_tokens == length * size
        assert uncached.counters.copied_tokens == 0
        assert same(found, expected)
        assert len({tuple(turn.token_ids) for turn in found}) > 1
        await shared.close()
        await uncached.close()

    asyncio.run(run())


def test_siblings_that_come_later_copy_too_even_from_a_session_that_was_released():
    async def run():
        engine = opened(num_slots=2)
        requests = group_of(5, "g")
        found = []
        for request in requests:
            found.append(await draw(engine, request))
            await engine.release(request.session)
        assert engine.counters.prefilled_tokens == len(PROMPT)
        again = opened()
        assert same(found, await draw_all(again, requests))
        await engine.close()
        await again.close()

    asyncio.run(run())


def test_members_with_their_own_endings_share_what_is_common():
    async def run():
        engine = opened()
        prompts = [np.concatenate([PROMPT, [n, n + 1]]) for n in range(4)]
        requests = [group_of(1, "g", first=n, prompt=prompt)[0] for n, prompt in enumerate(prompts)]
        await draw_all(engine, requests)
        # The first computes 39; the others share its first 37 tokens.
        assert engine.counters.prefilled_tokens == 39 + 3 * 2
        assert engine.counters.copied_tokens == 3 * 37
        await engine.close()

    asyncio.run(run())


@pytest.mark.row("S244")
def test_equal_text_under_another_identity_shares_no_cached_state():
    async def run():
        engine = opened()
        await draw_all(engine, group_of(2, "g"))
        before = engine.counters
        await draw_all(engine, group_of(2, "other", first=10))
        after = engine.counters
        assert after.prefilled_tokens - before.prefilled_tokens == len(PROMPT)
        await draw(engine, group_of(1, "third", first=20)[0])
        assert engine.counters.prefilled_tokens - after.prefilled_tokens == len(PROMPT)
        await engine.close()

    asyncio.run(run())


def test_what_was_decoded_is_never_copied():
    """Its bits differ from a prefill's, and whether a donor was there would show in the draws."""

    async def run():
        engine = opened()
        first = await draw(engine, group_of(1, "g")[0])
        before = engine.counters
        longer = np.concatenate([PROMPT, first.token_ids, [3]])
        await draw(engine, group_of(1, "g", first=9, prompt=longer)[0])
        assert engine.counters.copied_tokens - before.copied_tokens == len(PROMPT)
        await engine.close()

    asyncio.run(run())


def test_a_step_has_the_rows_that_draw_and_no_other_whatever_has_ended_between_them():
    async def run():
        engine = opened(num_slots=16)
        requests = [
            request_of(n, PROMPT[: 5 + n], max_tokens=60 if n >= 13 else 2, stop_token_ids=frozenset())
            for n in range(16)
        ]
        together = await draw_all(engine, requests)
        counters = engine.counters
        drawn = sum(len(turn.token_ids) for turn in together)
        # The first token of each comes from its prompt.
        assert counters.decode_rows == drawn - len(requests) < 16 * counters.decode_steps
        alone = []
        for request in requests:
            await engine.release(request.session)
        for request in requests:
            alone.append(await draw(engine, request))
            await engine.release(request.session)
        assert same(together, alone)
        await engine.close()

    asyncio.run(run())
