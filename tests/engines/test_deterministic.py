"""An episode gives the same tokens and log-probabilities, bit for bit, whatever else is in the batch."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.engines import EngineError
from rollwright.engines.draws import invert, uniforms
from rollwright.engines.embedded import EmbeddedSettings, open_engine, opening
from rollwright.engines.embedded.probe import probe
from rollwright.engines.embedded.runner import PrefillRow
from rollwright.record import Sampling
from tests.engines.small import VOCAB, draw, plain_logprobs, request_of, small_model

MODEL = small_model("qwen3", hidden_size=96, num_attention_heads=4, num_key_value_heads=2)
MAX_CONTEXT = 420


@dataclass(frozen=True, slots=True)
class Episode:
    """Several turns in one session, with a tool's answer between two."""

    number: int
    group: int
    prompt_tokens: int
    deltas: tuple[int, ...]
    max_tokens: int
    pauses: tuple[float, ...] = ()


def episode_of(number: int, rng: np.random.Generator) -> Episode:
    group = int(rng.integers(0, 3))
    turns = int(rng.integers(1, 4))
    return Episode(
        number=number,
        group=group,
        prompt_tokens=(7, 60, 255)[group],
        deltas=tuple(int(size) for size in rng.integers(1, 20, turns - 1)),
        max_tokens=int(rng.integers(3, 24)),
    )


async def play(engine, episode: Episode, pauses=(), share="", label=""):
    """All token ids and log-probabilities of an episode."""
    prompts = np.random.default_rng(episode.group)
    context = prompts.integers(0, VOCAB, episode.prompt_tokens)
    answers = np.random.default_rng(1000 + episode.number)
    tokens, scores = [], []
    session = f"{label}{episode.number}/0"
    for turn, delta in enumerate((*episode.deltas, 0)):
        if pauses:
            await asyncio.sleep(pauses[turn % len(pauses)])
        request = request_of(
            episode.number,
            context,
            request_id=f"{label}{episode.number}/t{turn}",
            session=session,
            share=share or f"{label}{episode.number}",
            max_tokens=episode.max_tokens,
            stop_token_ids=frozenset({0, 1}),
        )
        drawn = await draw(engine, request)
        tokens += drawn.token_ids
        scores.append(drawn.logprobs)
        context = np.concatenate([context, drawn.token_ids, answers.integers(0, VOCAB, delta)]).astype(np.int64)
    await engine.release(session)
    return tokens, np.concatenate(scores)


def open_one(num_slots=12, **changes):
    settings = EmbeddedSettings(num_slots=num_slots, max_context_tokens=MAX_CONTEXT, **changes)
    return open_engine(MODEL, settings, lambda manifest: {})


@pytest.fixture(scope="module")
def wide():
    engine = open_one()
    yield engine
    asyncio.run(engine.close())


@pytest.fixture(scope="module")
def narrow():
    engine = open_one(num_slots=3)
    yield engine
    asyncio.run(engine.close())


@settings(max_examples=6)
@given(st.integers(0, 10**6))
def test_an_episode_has_the_same_bits_alone_and_in_any_company(wide, narrow, seed):
    rng = np.random.default_rng(seed)
    episodes = [episode_of(number, rng) for number in range(10)]
    label = f"{seed}-"

    async def alone():
        return [await play(narrow, episode, label=f"{label}alone-") for episode in episodes]

    async def together(engine, name):
        order = rng.permutation(len(episodes))
        pauses = {n: tuple(rng.uniform(0, 0.02, 4)) for n in order}
        async with asyncio.TaskGroup() as group:
            tasks = {
                n: group.create_task(
                    play(engine, episodes[n], pauses[n], share=f"{name}-{episodes[n].group}", label=name)
                )
                for n in order
            }
        return [tasks[n].result() for n in range(len(episodes))]

    expected = asyncio.run(alone())
    for engine, name in ((wide, f"{label}wide-"), (narrow, f"{label}narrow-"), (wide, f"{label}again-")):
        found = asyncio.run(together(engine, name))
        for episode, first, second in zip(episodes, expected, found, strict=True):
            assert first[0] == second[0], (name, episode)
            assert np.array_equal(first[1], second[1]), (name, episode)
    assert wide.counters.evicted_sessions == narrow.counters.evicted_sessions == 0


def test_the_tokens_are_the_draws_of_the_contract(wide):
    """Philox draw p of the context, inverted on the distribution that plain `transformers` gives."""

    async def run():
        request = request_of(1, [4, 5, 6], max_tokens=40, stop_token_ids=frozenset(), session="draws", context=3)
        turn = await draw(wide, request)
        tokens = [4, 5, 6, *turn.token_ids]
        with torch.no_grad():
            logits = MODEL(input_ids=torch.tensor([tokens])).logits[0, 2:-1].double()
        every = torch.log_softmax(logits, dim=-1).numpy()
        positions = np.arange(3, len(tokens), dtype=np.uint64)
        seeds, contexts = np.full_like(positions, request.seed), np.full_like(positions, 3)
        assert invert(np.exp(every), uniforms(seeds, contexts, positions)).tolist() == turn.token_ids
        await wide.release("draws")

    asyncio.run(run())


def test_other_seeds_contexts_and_positions_give_other_draws(wide):
    async def run():
        drawn = []
        for number, changes in enumerate(({}, {"context": 1}, {"seed": 2}, {"token_ids": np.array([1, 2, 3, 4])})):
            request = request_of(7, session=f"other-{number}", max_tokens=20, stop_token_ids=frozenset())
            fields: dict[str, Any] = {"request_id": f"other-{number}", **changes}
            turn = await draw(wide, replace(request, **fields))
            drawn.append(tuple(turn.token_ids))
            await wide.release(f"other-{number}")
        assert len(set(drawn)) == 4

    asyncio.run(run())


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_the_probe_finds_nothing_on_the_supported_families(family):
    model = small_model(family)
    runner = opening.make_runner(model, EmbeddedSettings(num_slots=24, max_context_tokens=400))
    assert probe(runner) is None


def test_the_probe_sees_a_row_that_depends_on_its_neighbors():
    class Leaky:
        """A runner whose logits hold a trace of the batch's width."""

        def __init__(self):
            settings = EmbeddedSettings(num_slots=8, max_context_tokens=400)
            self._inner = opening.make_runner(MODEL, settings)

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def decode(self, places, token_ids, positions):
            return self._inner.decode(places, token_ids, positions) + np.float32(1e-5) * len(token_ids)

    found = probe(Leaky())  # pyright: ignore[reportArgumentType] - a stand-in
    assert found is not None
    assert "decode step 1" in found


def test_the_probe_sees_one_width_of_a_step_that_has_a_kernel_of_its_own():
    class Leaky:
        """A runner whose logits differ in steps of 5 rows alone."""

        def __init__(self):
            settings = EmbeddedSettings(num_slots=8, max_context_tokens=400)
            self._inner = opening.make_runner(MODEL, settings)

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def decode(self, places, token_ids, positions):
            return self._inner.decode(places, token_ids, positions) + np.float32(1e-5) * (len(token_ids) == 5)

    found = probe(Leaky())  # pyright: ignore[reportArgumentType] - a stand-in
    assert found is not None
    assert "in a decode step of 5 rows" in found


def test_the_probe_sees_a_few_tokens_that_are_multiplied_otherwise_alone():
    class Leaky:
        """A runner whose logits behind few new tokens hold a trace of how few they are."""

        def __init__(self):
            settings = EmbeddedSettings(num_slots=8, max_context_tokens=400)
            self._inner = opening.make_runner(MODEL, settings)

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def prefill(self, rows):
            is_few = sum(len(row.token_ids) for row in rows) <= 8
            return self._inner.prefill(rows) + np.float32(1e-5) * is_few

    found = probe(Leaky())  # pyright: ignore[reportArgumentType] - a stand-in
    assert found is not None
    assert "behind a tool's answer" in found


def test_the_probe_sees_a_product_of_many_rows_that_is_multiplied_otherwise():
    class Leaky:
        """A runner whose prefills of many tokens differ, in other rows than the first."""

        def __init__(self):
            settings = EmbeddedSettings(num_slots=8, max_context_tokens=400)
            self._inner = opening.make_runner(MODEL, settings)

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def prefill(self, rows):
            logits = self._inner.prefill(rows)
            logits[1:] += np.float32(1e-5) * (len(rows) == 8)
            return logits

    found = probe(Leaky())  # pyright: ignore[reportArgumentType] - a stand-in
    assert found is not None
    assert "in a prefill of 8 than alone" in found


def test_a_prompt_has_the_same_bits_beside_so_many_others_that_a_long_sum_is_cut_otherwise():
    # A matrix of 1,024 inputs that lies turned had other bits with 192 rows than with fewer on some processors.
    shape = {"hidden_size": 256, "intermediate_size": 1024, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = small_model("qwen2", num_hidden_layers=1, vocab_size=100, **shape)
    runner = opening.make_runner(model, EmbeddedSettings(num_slots=8, max_context_tokens=200))
    tokens = np.random.default_rng(0).integers(0, 100, 100).astype(np.int32)
    alone = runner.prefill([PrefillRow(place=0, start=0, token_ids=tokens)])
    for width in (2, 4, 8):
        rows = [PrefillRow(place=place, start=0, token_ids=tokens) for place in range(width)]
        assert np.array_equal(runner.prefill(rows), np.repeat(alone, width, axis=0))


def test_an_answer_of_a_few_tokens_has_the_same_bits_alone_and_in_company():
    # Of these sizes some processors multiply up to 8 rows otherwise than more.
    model = small_model("qwen3", hidden_size=192, intermediate_size=512, num_attention_heads=4, num_key_value_heads=2)
    runner = opening.make_runner(model, EmbeddedSettings(num_slots=8, max_context_tokens=96))
    tokens = np.random.default_rng(0).integers(0, VOCAB, 60).astype(np.int32)

    def rows(places, low, high):
        return [PrefillRow(place=place, start=low, token_ids=tokens[low:high]) for place in places]

    runner.prefill(rows(range(4), 0, 40))
    alone = runner.prefill(rows([0], 40, 45))
    assert np.array_equal(runner.prefill(rows([1, 2, 3], 40, 45)), np.repeat(alone, 3, axis=0))


def test_the_mode_is_refused_where_it_cannot_hold():
    with pytest.raises(EngineError, match="float32 on a CPU"):
        EmbeddedSettings(dtype="bfloat16")
    with pytest.raises(EngineError, match="'fast'"):
        EmbeddedSettings(device="cuda")


def test_where_the_probe_finds_something_no_number_of_threads_is_advised_that_is_set_already(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(opening, "probe", lambda _: "a row depends on its neighbors")
    for threads, advised in ((1, "Try 2, 4 or 8 threads"), (4, "Try 1, 2 or 8 threads")):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        with pytest.raises(EngineError, match=advised):
            opening.make_runner(MODEL, EmbeddedSettings(num_slots=8, max_context_tokens=MAX_CONTEXT))


def test_the_cuts_of_a_prefill_change_no_bit():
    settings = EmbeddedSettings(num_slots=8, max_context_tokens=MAX_CONTEXT)
    runner = opening.make_runner(MODEL, settings)
    tokens = np.random.default_rng(0).integers(0, VOCAB, 400).astype(np.int32)

    def cut(bounds, place):
        rows = [
            PrefillRow(place=place, start=low, token_ids=tokens[low:high])
            for low, high in zip(bounds[:-1], bounds[1:], strict=True)
        ]
        return [runner.prefill([row]) for row in rows][-1]

    whole = cut([0, 400], 0)
    for place, bounds in enumerate(([0, 256, 400], [0, 1, 399, 400], [0, 17, 100, 133, 300, 400], [*range(0, 401, 8)])):
        assert np.array_equal(cut(bounds, place + 1), whole)


def test_an_open_session_is_never_evicted_and_a_new_one_waits_for_room(narrow):
    async def run():
        for number in range(3):
            await draw(narrow, request_of(number, session=f"open-{number}"))
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(draw(narrow, request_of(9, session="open-9")))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await narrow.release("open-1")
        assert waiting.result().finish is not None
        for number in (0, 2, 9):
            await narrow.release(f"open-{number}")
        assert narrow.counters.evicted_sessions == 0

    asyncio.run(run())


def test_the_fast_mode_gives_up_the_longest_unused_session_and_computes_it_again():
    engine = open_one(num_slots=2, mode="fast", evict_after_s=0.02)

    async def run():
        first = await draw(engine, request_of(1, max_tokens=4, stop_token_ids=frozenset()))
        for number in (2, 3):
            await draw(engine, request_of(number, [5, 6, number], max_tokens=4))
        assert engine.counters.evicted_sessions == 1
        context = [1, 2, 3, *first.token_ids, 9]
        again = await draw(engine, request_of(4, context, session="s1/0", max_tokens=4, stop_token_ids=frozenset()))
        expected = plain_logprobs(MODEL, [*context, *again.token_ids], len(context))
        np.testing.assert_allclose(again.logprobs, expected, atol=1e-4)
        await engine.close()

    asyncio.run(run())


def test_rows_of_different_samplings_do_not_touch_each_other(wide):
    async def run():
        requests = [
            request_of(n, session=f"mix-{n}", seed=5, sampling=sampling, stop_token_ids=frozenset())
            for n, sampling in enumerate((Sampling(), Sampling(temperature=0), Sampling(top_k=3), Sampling(min_p=0.2)))
        ]
        alone = []
        for request in requests:
            alone.append(await draw(wide, request))
            await wide.release(request.session)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(draw(wide, request)) for request in requests]
        for request, first, task in zip(requests, alone, tasks, strict=True):
            assert first.token_ids == task.result().token_ids
            assert np.array_equal(first.logprobs, task.result().logprobs)
            await wide.release(request.session)

    asyncio.run(run())
