"""New weights in mid-turn: a chunk ends there, and each token says which weights drew it and which made its cache."""

import asyncio
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from transformers import DynamicCache

from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.record import Swap
from rollwright.rollout.sampling import sample_turn
from rollwright.rollout.spec import Interruption
from tests.cases import method_fixture
from tests.engines.battery import manifest_of
from tests.engines.small import VOCAB, draw, plain_logprobs, request_of, small_model
from tests.engines.stepping import Stepper, next_turn

TINY = {"head_dim": 16, "hidden_size": 32, "intermediate_size": 48}
FAMILIES = ("qwen3", "mistral")
MODELS = {family: [small_model(family, seed=seed, **TINY) for seed in range(3)] for family in FAMILIES}
SETTINGS = EmbeddedSettings(num_slots=4, max_context_tokens=96, mode="fast")
PROMPT = (1, 2, 3, 4, 5)
every_path = pytest.mark.parametrize("family", FAMILIES, ids=("fast path", "generic path"))
both = pytest.mark.parametrize("swap", ["continue", "recompute"])


@contextmanager
def stepping(family="qwen3", settings=SETTINGS):
    stepper = Stepper(MODELS[family][0], settings)
    try:
        yield stepper
    finally:
        stepper.close()


def free(number, token_ids=PROMPT, **changes):
    """A request that stops at its budget only."""
    return request_of(number, token_ids, **{"max_tokens": 12, "stop_token_ids": frozenset(), **changes})


def versions(turn):
    return [(chunk.policy_version, chunk.cache_version, len(chunk.token_ids)) for chunk in turn.chunks]


def logprobs_over_an_old_cache(old, new, tokens, at):
    """Of the tokens from `at` on, by `new` over keys and values that `old` made of all before token `at - 1`."""
    given = torch.tensor(tokens)[None]
    with torch.no_grad():
        cache = DynamicCache(config=old.config)
        old(input_ids=given[:, : at - 1], cache=cache, use_cache=True)
        logits = new(input_ids=given[:, at - 1 : -1], cache=cache, use_cache=True).logits[0].double()
    return torch.log_softmax(logits, -1)[torch.arange(len(tokens) - at), given[0, at:]].numpy()


# ------------------------------------------------------------------------------------------------- what a turn becomes


@every_path
def test_continue_goes_on_under_the_new_weights_over_the_cache_of_the_old(family):
    old, new, _ = MODELS[family]
    with stepping(family) as stepper:
        stepper.submit(free(1))
        stepper.step(4)
        stepper.load(new, 1, "continue")
        stepper.finish()
        turn = stepper.turn("r1")
    assert versions(turn) == [(0, 0, 5), (1, 0, 7)]
    assert turn.finish == "length"
    tokens, cut = [*PROMPT, *turn.token_ids], len(PROMPT) + 5
    np.testing.assert_allclose(turn.logprobs[:5], plain_logprobs(old, tokens[:cut], len(PROMPT)), atol=1e-4)
    expected = logprobs_over_an_old_cache(old, new, tokens, cut)
    np.testing.assert_allclose(turn.logprobs[5:], expected, atol=1e-4)
    assert abs(expected - plain_logprobs(new, tokens, cut)).max() > 1e-2
    assert stepper.counters.refilled_tokens == 0


@every_path
def test_recompute_goes_on_as_if_the_new_weights_had_read_all_before(family):
    old, new, _ = MODELS[family]
    with stepping(family) as stepper:
        stepper.submit(free(1))
        stepper.step(4)
        stepper.load(new, 1, "recompute")
        stepper.finish()
        turn = stepper.turn("r1")
    assert versions(turn) == [(0, 0, 5), (1, 1, 7)]
    tokens, cut = [*PROMPT, *turn.token_ids], len(PROMPT) + 5
    np.testing.assert_allclose(turn.logprobs[:5], plain_logprobs(old, tokens[:cut], len(PROMPT)), atol=1e-4)
    np.testing.assert_allclose(turn.logprobs[5:], plain_logprobs(new, tokens, cut), atol=1e-4)
    assert stepper.counters.refilled_tokens == len(PROMPT) + 5


def test_what_the_three_swaps_cost_and_mix_is_as_the_method_says():
    fixture = method_fixture("M110.a")
    given, expected = fixture.input, fixture.expect
    settings = EmbeddedSettings(num_slots=1, max_context_tokens=1000, mode="fast")
    prompt = np.random.default_rng(0).integers(0, VOCAB, given["prefix"])
    found = {name: [] for name in expected}
    for swap in given["mode"]:
        with stepping(settings=settings) as stepper:
            stepper.submit(free(1, prompt, max_tokens=given["generated"]))
            stepper.step(given["update_at"] - 1)
            if swap == "drain":
                stepper.finish()
            stepper.load(MODELS["qwen3"][1], 1, swap)
            stepper.finish()
            chunks = stepper.turn("r1").chunks
            assert sum(len(chunk.token_ids) for chunk in chunks) == given["generated"]
            found["versions_in_rollout"].append(len({chunk.policy_version for chunk in chunks}))
            found["prefill_tokens_redone"].append(stepper.counters.refilled_tokens)
            found["kv_matches_weights"].append(chunks[-1].policy_version == chunks[-1].cache_version)
            assert stepper.counters.prefilled_tokens == given["prefix"] + stepper.counters.refilled_tokens
    assert found == expected


def test_the_cache_version_is_that_of_the_oldest_weights_in_the_cache():
    _, new, newest = MODELS["qwen3"]
    with stepping() as stepper:
        stepper.submit(free(1))
        for number, swap in enumerate(("continue", "continue", "recompute", "continue")):
            stepper.step(1)
            stepper.load((new, newest)[number % 2], number + 1, swap)
        stepper.finish()
        turn = stepper.turn("r1")
    assert versions(turn) == [(0, 0, 2), (1, 0, 1), (2, 0, 1), (3, 3, 1), (4, 3, 7)]


@both
def test_new_weights_before_the_first_token_or_behind_the_last_cut_nothing(swap):
    with stepping() as stepper:
        stepper.load(MODELS["qwen3"][1], 1, swap)
        stepper.submit(free(1))
        stepper.finish()
        stepper.load(MODELS["qwen3"][2], 2, swap)
        assert versions(stepper.turn("r1")) == [(1, 1, 12)]
        assert stepper.counters.refilled_tokens == 0


@both
def test_chunks_of_one_token_keep_their_versions_over_a_swap(swap):
    with stepping() as stepper:
        stepper.submit(free(1, chunk_tokens=1, max_tokens=6))
        stepper.step(2)
        stepper.load(MODELS["qwen3"][1], 1, swap)
        stepper.finish()
        found = versions(stepper.turn("r1"))
    assert [version for version, _, size in found if size] == [0, 0, 0, 1, 1, 1]
    assert {cache for version, cache, size in found if size and version} == {0 if swap == "continue" else 1}


# ------------------------------------------------------------------------------------- caches that the weights outlived


@every_path
@both
@pytest.mark.case("F86")
@pytest.mark.parametrize("version", [7, 0], ids=["next version", "same number again"])
def test_no_later_turn_and_no_sibling_uses_a_cache_of_older_weights(family, swap, version):
    new = MODELS[family][1]
    with stepping(family) as stepper:
        running = free(1, share="g")
        idle = free(2, share="g", max_tokens=3)
        stepper.submit(running, idle)
        stepper.step(4)
        stepper.load(new, version, swap)
        stepper.finish()
        later = [
            next_turn(running, stepper.turn("r1").token_ids, [6, 7]),
            next_turn(idle, stepper.turn("r2").token_ids, [8]),
            free(3, share="g"),
        ]
        stepper.submit(*later)
        stepper.finish()
        for request in later:
            turn = stepper.turn(request.request_id)
            assert {(chunk.policy_version, chunk.cache_version) for chunk in turn.chunks} == {(version, version)}
            context = request.token_ids.tolist()
            expected = plain_logprobs(new, [*context, *turn.token_ids], len(context))
            np.testing.assert_allclose(turn.logprobs, expected, atol=1e-4)


def test_a_session_that_new_weights_found_idle_counts_what_its_next_turn_computes_again():
    with stepping() as stepper:
        request = free(1, max_tokens=4)
        stepper.submit(request)
        stepper.finish()
        stepper.load(MODELS["qwen3"][1], 1, "recompute")
        assert stepper.counters.refilled_tokens == 0
        stepper.submit(next_turn(request, stepper.turn("r1").token_ids, [6, 7]))
        # The prompt and all tokens but the last, which had not been through the model; the rest is new.
        assert stepper.counters.refilled_tokens == len(PROMPT) + 3
        assert stepper.counters.prefilled_tokens == len(PROMPT) + len(PROMPT) + 4 + 2


def test_recompute_computes_the_prompt_of_a_running_group_once():
    prompt = list(range(20))
    with stepping() as stepper:
        stepper.submit(*[free(n, prompt, share="g", seed=n) for n in range(4)])
        stepper.step(3)
        stepper.load(MODELS["qwen3"][1], 1, "recompute")
        before = stepper.counters.prefilled_tokens
        stepper.step(1)
        assert 20 + 4 <= stepper.counters.prefilled_tokens - before <= 20 + 4 * 4
        stepper.finish()
        drawn = set()
        for n in range(4):
            turn = stepper.turn(f"r{n}")
            drawn.add(tuple(turn.token_ids[:4]))
            expected = plain_logprobs(MODELS["qwen3"][1], [*prompt, *turn.token_ids], 24)
            np.testing.assert_allclose(turn.logprobs[4:], expected, atol=1e-4)
    assert len(drawn) == 4


@both
@pytest.mark.parametrize("family", FAMILIES)
def test_in_the_deterministic_mode_a_turn_with_new_weights_at_a_token_has_the_same_bits_in_any_company(family, swap):
    settings = EmbeddedSettings(num_slots=8, max_context_tokens=96)

    def play(neighbors):
        with stepping(family, settings) as stepper:
            request = free(1, list(range(17)), share="g")
            for n in range(neighbors):
                stepper.submit(free(10 + n, list(range(3 + 9 * n)), share="g" if n % 2 else "h", max_tokens=30))
                stepper.step(2)
            stepper.submit(request)
            stepper.step(5)
            stepper.load(MODELS[family][1], 1, swap)
            stepper.step(4)
            stepper.submit(free(40, list(range(18)), share="g"))
            stepper.load(MODELS[family][2], 2, swap)
            while len(stepper.turn("r1").token_ids) < 12:
                stepper.step()
            later = next_turn(request, stepper.turn("r1").token_ids, [6, 7])
            stepper.submit(later)
            stepper.finish()
            turns = [stepper.turn(name) for name in ("r1", "r1+")]
            return [(turn.token_ids, turn.logprobs.tobytes(), versions(turn)) for turn in turns]

    alone = play(0)
    assert len(alone[0][2]) == 3
    assert play(3) == alone


# ----------------------------------------------------------------------------------------------- pauses, ends, orders


@both
def test_a_turn_that_is_cancelled_while_its_cache_waits_to_be_made_again_ends_with_what_was_drawn(swap):
    with stepping() as stepper:
        request = free(1)
        stepper.submit(request, free(2))
        stepper.step(2)
        stepper.load(MODELS["qwen3"][1], 1, swap)
        stepper.decoder.cancel("r1")
        cut = stepper.turn("r1")
        assert cut.finish == "aborted" and len(cut.token_ids) == 3
        assert {chunk.policy_version for chunk in cut.chunks if len(chunk.token_ids)} == {0}
        assert all(chunk.cache_version >= 0 for chunk in cut.chunks)
        stepper.submit(next_turn(request, cut.token_ids, []))
        stepper.finish()
        turn = stepper.turn("r1+")
        context = [*PROMPT, *cut.token_ids]
        expected = plain_logprobs(MODELS["qwen3"][1], [*context, *turn.token_ids], len(context))
        np.testing.assert_allclose(turn.logprobs, expected, atol=1e-4)
        assert stepper.turn("r2").finish == "length"


class Shelf:
    """Where the tests lay weights out."""

    def __init__(self, model):
        self.weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    def read(self, manifest):
        return self.weights


@every_path
@both
def test_a_paused_engine_takes_new_weights_in_mid_turn_and_draws_nothing_until_it_goes_on(family, swap):
    async def run():
        old, new, _ = MODELS[family]
        shelf = Shelf(new)
        engine = open_engine(old, SETTINGS, shelf.read)
        stream = engine.generate(free(1, chunk_tokens=1, max_tokens=60))
        chunks = [await anext(stream)]
        await engine.pause()
        await engine.load_weights(manifest_of(shelf.weights, 1), swap)
        before = engine.counters.drawn_tokens
        await asyncio.sleep(0.02)
        assert engine.counters.drawn_tokens == before
        await engine.resume()
        chunks += [chunk async for chunk in stream]
        found = [chunk.policy_version for chunk in chunks if len(chunk.token_ids)]
        assert found == [0] * before + [1] * (60 - before)
        await engine.close()

    asyncio.run(run())


@both
def test_the_driver_gets_a_run_for_each_pair_of_policy_and_cache_version(swap):
    async def run():
        old, new, _ = MODELS["qwen3"]
        shelf = Shelf(new)
        engine = open_engine(old, EmbeddedSettings(num_slots=4, max_context_tokens=500, mode="fast"), shelf.read)
        async with asyncio.TaskGroup() as group:
            drawing = group.create_task(sample_turn(engine, free(1, max_tokens=400), Interruption(), 60.0))
            while not engine.counters.drawn_tokens:  # noqa: ASYNC110 - a counter has no event
                await asyncio.sleep(0)
            await engine.load_weights(manifest_of(shelf.weights, 1), swap)
        turn = drawing.result()
        assert (turn.failure, turn.finish, turn.num_tokens) == (None, "length", 400)
        assert [(r.policy_version, r.cache_version) for r in turn.runs] == [(0, 0), (1, 0 if swap == "continue" else 1)]
        await engine.close()

    asyncio.run(run())


def test_weights_are_served_in_the_order_in_which_they_were_given():
    async def run():
        shelf = Shelf(MODELS["qwen3"][1])
        engine = open_engine(MODELS["qwen3"][0], SETTINGS, shelf.read)
        stream = engine.generate(free(1, chunk_tokens=1, max_tokens=80))
        first = await anext(stream)
        async with asyncio.TaskGroup() as group:
            orders: list[tuple[int, Swap]] = [(1, "drain"), (2, "continue")]
            for version, swap in orders:
                group.create_task(engine.load_weights(manifest_of(shelf.weights, version), swap))
                await asyncio.sleep(0)
            rest = [chunk async for chunk in stream]
        # What drains comes first, so the turn ended under the old weights.
        assert {chunk.policy_version for chunk in (first, *rest)} == {0}
        assert (await draw(engine, free(2))).chunks[0].policy_version == 2
        await engine.close()

    asyncio.run(run())
