"""Log-probabilities of the embedded engine agree with plain `transformers` on the same weights."""

import asyncio
from typing import Any

import numpy as np
import pytest
import torch

from rollwright.engines import EngineError, UnsupportedModelError
from rollwright.engines.embedded import EmbeddedSettings, load_engine, open_engine
from rollwright.record import Sampling, ScoreRequest, ids
from tests.engines.small import VOCAB, draw, draw_all, plain_logprobs, request_of, small_model

MODELS: dict[str, dict[str, Any]] = {
    "qwen3": {},
    "qwen3, untied, four queries a key": {"num_attention_heads": 4, "tie_word_embeddings": False},
    "qwen3, attention bias": {"attention_bias": True},
    "qwen2": {},
    "qwen2, untied": {"tie_word_embeddings": False},
    "llama": {},
    "llama, biases, a key a query": {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 2},
    "llama, scaled positions": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
    "mistral": {},
    "mistral, sliding window": {"sliding_window": 16},
}


def opened(model, **changes):
    settings: dict[str, Any] = {"num_slots": 8, "max_context_tokens": 400, "mode": "fast"}
    return open_engine(model, EmbeddedSettings(**{**settings, **changes}), lambda manifest: {})


@pytest.mark.parametrize("name", MODELS)
def test_sampled_and_scored_logprobs_are_those_of_transformers(name):
    model = small_model(name.split(",")[0], **MODELS[name])

    async def run():
        engine = opened(model)
        rng = np.random.default_rng(0)
        prompts = [rng.integers(0, VOCAB, size) for size in (3, 40, 270)]
        requests = [
            request_of(n, prompt, max_tokens=30, stop_token_ids=frozenset(), sampling=Sampling(temperature=0.8))
            for n, prompt in enumerate(prompts)
        ]
        for request, turn in zip(requests, await draw_all(engine, requests), strict=True):
            tokens, start = [*request.token_ids.tolist(), *turn.token_ids], len(request.token_ids)
            expected = plain_logprobs(model, tokens, start, temperature=0.8)
            np.testing.assert_allclose(turn.logprobs, expected, rtol=0, atol=1e-4)
            score = ScoreRequest(
                policy="policy", token_ids=ids(tokens), score_from=1, sampling=Sampling(temperature=0.8), tensors={}
            )
            expected = plain_logprobs(model, tokens, 1, temperature=0.8)
            np.testing.assert_allclose((await engine.score(score)).logprobs, expected, rtol=0, atol=1e-4)
            # A second turn behind the first: only what is new is computed, and it agrees as well.
            longer = [*tokens, 5, 6, 7, 8]
            second = await draw(engine, request_of(99, longer, session=request.session, stop_token_ids=frozenset()))
            expected = plain_logprobs(model, [*longer, *second.token_ids], len(longer))
            np.testing.assert_allclose(second.logprobs, expected, rtol=0, atol=1e-4)
        await engine.close()

    asyncio.run(run())


def test_a_warm_session_computes_only_what_is_new():
    async def run():
        engine = opened(small_model("qwen3"))
        prompt = list(range(1, 21))
        first = await draw(engine, request_of(1, prompt, max_tokens=5, stop_token_ids=frozenset()))
        before = engine.counters
        await draw(engine, request_of(2, [*prompt, *first.token_ids, 9, 9, 9], session="s1/0"))
        after = engine.counters
        # The last drawn token was never put through the model: it comes with the three new ones.
        assert after.prefilled_tokens - before.prefilled_tokens == 4
        assert after.kept_tokens - before.kept_tokens == 24
        await engine.close()

    asyncio.run(run())


@pytest.mark.case("F101")
def test_the_first_token_has_no_score_and_token_t_uses_the_logits_before_it():
    model = small_model("llama")

    async def run():
        engine = opened(model)
        tokens = [1, 7, 9]
        request = ScoreRequest(policy="policy", token_ids=ids(tokens), score_from=1, sampling=Sampling(), tensors={})
        scores = await engine.score(request)
        assert len(scores.logprobs) == len(tokens) - 1
        np.testing.assert_allclose(scores.logprobs, plain_logprobs(model, tokens, 1), atol=1e-4)
        turn = await draw(engine, request_of(1, tokens, max_tokens=1, stop_token_ids=frozenset()))
        np.testing.assert_allclose(turn.logprobs, plain_logprobs(model, [*tokens, *turn.token_ids], 3), atol=1e-4)
        with pytest.raises(EngineError, match="The first token has none"):
            await engine.score(
                ScoreRequest(policy="policy", token_ids=ids(tokens), score_from=0, sampling=Sampling(), tensors={})
            )
        await engine.close()

    asyncio.run(run())


def test_scores_name_the_best_tokens_beside_the_given_ones():
    model = small_model("qwen2")

    async def run():
        engine = opened(model)
        tokens = torch.tensor([3, 1, 4, 1, 5])
        request = ScoreRequest(
            policy="policy", token_ids=ids(tokens.numpy()), score_from=2, sampling=Sampling(), tensors={}, top_k=3
        )
        scores = await engine.score(request)
        with torch.no_grad():
            expected = torch.log_softmax(model(input_ids=tokens[None]).logits[0, 1:4], dim=-1).topk(3)
        assert scores.tensors["topk_ids"].tolist() == expected.indices.tolist()
        best = np.asarray(scores.tensors["topk_logprobs"], dtype=np.float32)
        np.testing.assert_allclose(best, expected.values.numpy(), atol=1e-4)
        await engine.close()

    asyncio.run(run())


def test_greedy_follows_the_best_token_of_transformers():
    model = small_model("qwen3")

    async def run():
        engine = opened(model)
        request = request_of(1, [5, 6], max_tokens=12, sampling=Sampling(temperature=0), stop_token_ids=frozenset())
        turn = await draw(engine, request)
        tokens = [5, 6]
        for _ in range(12):
            with torch.no_grad():
                tokens.append(int(model(input_ids=torch.tensor([tokens])).logits[0, -1].argmax()))
        assert turn.token_ids == tokens[2:]
        assert turn.logprobs.tolist() == [0.0] * 12
        await engine.close()

    asyncio.run(run())


def test_bfloat16_stays_near_single_precision():
    model = small_model("qwen3", initializer_range=0.05)

    async def run():
        engine = opened(model, dtype="bfloat16")
        turn = await draw(engine, request_of(1, [5, 6], max_tokens=30, stop_token_ids=frozenset()))
        gap = np.abs(turn.logprobs - plain_logprobs(model, [5, 6, *turn.token_ids], 2)).max()
        assert 0 < gap < 0.2
        await engine.close()

    asyncio.run(run())


def test_a_folder_serves_as_its_model_does(tmp_path):
    model = small_model("qwen3")
    model.save_pretrained(tmp_path)
    settings = EmbeddedSettings(num_slots=4, max_context_tokens=64, mode="fast")

    async def run():
        engine = load_engine(tmp_path, settings, lambda manifest: {})
        turn = await draw(engine, request_of(1, max_tokens=5, stop_token_ids=frozenset()))
        expected = plain_logprobs(model, [1, 2, 3, *turn.token_ids], 3)
        np.testing.assert_allclose(turn.logprobs, expected, atol=1e-4)
        await engine.close()

    asyncio.run(run())


def test_a_folder_without_a_model_is_refused_with_what_runs(tmp_path):
    with pytest.raises(UnsupportedModelError, match="llama.*qwen2, qwen3"):
        load_engine(tmp_path, EmbeddedSettings(), lambda manifest: {})


def test_more_positions_than_the_model_has_are_refused():
    with pytest.raises(UnsupportedModelError, match="1024 positions"):
        opened(small_model("qwen3"), max_context_tokens=1025)


def test_token_ids_outside_the_vocabulary_are_refused():
    async def run():
        engine = opened(small_model("qwen3"))
        with pytest.raises(EngineError, match="0 to 63"):
            await draw(engine, request_of(1, [1, 64]))
        with pytest.raises(EngineError, match="0 to 63"):
            await draw(engine, request_of(1, stop_token_ids=frozenset({64})))
        await engine.close()

    asyncio.run(run())


def test_code_of_a_model_folder_is_never_run_and_never_asked_about(tmp_path, capfd):
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    own = '{"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}}'
    (tmp_path / "config.json").write_text(own)
    with pytest.raises(UnsupportedModelError, match="Python code of its own, which is never run"):
        load_engine(tmp_path, EmbeddedSettings(), lambda manifest: {})
    assert not (tmp_path / "ran").exists()
    assert capfd.readouterr().out == ""
