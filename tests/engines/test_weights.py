"""New weights: whole or not at all, after what runs, and no cache outlives the weights that made it."""

import asyncio

import numpy as np
import pytest
import torch

from rollwright.engines import EngineLostError, WeightsRefusedError
from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.learner.state import tensor_specs
from rollwright.record import Sampling, ScoreRequest, TensorSpec, WeightsManifest, ids
from tests.engines.battery import manifest_of
from tests.engines.small import draw, plain_logprobs, request_of, small_model

FAMILIES = ("qwen3", "mistral")
SETTINGS = EmbeddedSettings(num_slots=4, max_context_tokens=64, mode="fast")
every_path = pytest.mark.parametrize("family", FAMILIES, ids=("fast path", "generic path"))


class Shelf:
    """Where the tests lay weights out."""

    def __init__(self):
        self.weights = {}

    def read(self, manifest):
        return self.weights


def weights_of(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


async def probe_logprobs(engine):
    request = ScoreRequest(
        policy="policy", token_ids=ids([1, 2, 3, 4, 5]), score_from=1, sampling=Sampling(), tensors={}
    )
    scores = await engine.score(request)
    return scores.logprobs, scores.policy_version


@every_path
@pytest.mark.case("F86")
@pytest.mark.parametrize("version", [7, 0], ids=["next version", "same number again"])
def test_no_request_after_a_publish_uses_a_cache_of_older_weights(family, version):
    old, new, shelf = small_model(family), small_model(family, seed=1), Shelf()

    async def run():
        engine = open_engine(old, SETTINGS, shelf.read)
        prompt = [1, 2, 3, 4]
        first = await draw(engine, request_of(1, prompt, share="g", max_tokens=4, stop_token_ids=frozenset()))
        shelf.weights = weights_of(new)
        await engine.load_weights(manifest_of(shelf.weights, version), "drain")
        # The warm session of the old weights, a new session of the same group, and a new one of another group.
        longer = [*prompt, *first.token_ids, 5]
        for number, (session, share, context) in enumerate(
            (("s1/0", "g", longer), ("s2/0", "g", prompt), ("s3/0", "h", prompt))
        ):
            request = request_of(
                10 + number, context, session=session, share=share, max_tokens=6, stop_token_ids=frozenset()
            )
            turn = await draw(engine, request)
            expected = plain_logprobs(new, [*context, *turn.token_ids], len(context))
            np.testing.assert_allclose(turn.logprobs, expected, atol=1e-4)
            assert {(c.policy_version, c.cache_version) for c in turn.chunks} == {(version, version)}
        await engine.close()

    asyncio.run(run())


@every_path
@pytest.mark.case("F87")
def test_a_publish_with_an_unmatched_name_is_refused_by_name_and_the_old_weights_serve_whole(family):
    old, new, shelf = small_model(family), small_model(family, seed=1), Shelf()

    async def run():
        engine = open_engine(old, SETTINGS, shelf.read)
        before, _ = await probe_logprobs(engine)
        shelf.weights = weights_of(new)
        name = "model.layers.1.mlp.up_proj.weight"
        shelf.weights["blk." + name] = shelf.weights.pop(name)
        with pytest.raises(WeightsRefusedError, match=f"missing: {name}.*unmatched by the model: blk.{name}"):
            await engine.load_weights(manifest_of(shelf.weights, 1), "drain")
        after, version = await probe_logprobs(engine)
        assert version == 0
        assert np.array_equal(before, after)
        # What the case asks of a publish that counts: the engine answers as the trainer does before it is called live.
        shelf.weights = weights_of(new)
        await engine.load_weights(manifest_of(shelf.weights, 2), "drain")
        found, version = await probe_logprobs(engine)
        assert version == 2
        np.testing.assert_allclose(found, plain_logprobs(new, [1, 2, 3, 4, 5], 1), atol=1e-4)
        await engine.close()

    asyncio.run(run())


def _without_one(weights):
    weights.pop("model.norm.weight")


def _other_numbers(weights):
    weights["model.norm.weight"] = weights["model.norm.weight"] + 1


def _other_type(weights):
    weights["model.norm.weight"] = weights["model.norm.weight"].bfloat16()


def _other_shape(weights):
    weights["model.norm.weight"] = weights["model.norm.weight"][:-1]


@every_path
@pytest.mark.case("F91")
@pytest.mark.parametrize("spoil", [_without_one, _other_numbers, _other_type, _other_shape])
def test_what_arrives_otherwise_than_the_manifest_says_never_serves(family, spoil):
    old, new, shelf = small_model(family), small_model(family, seed=1), Shelf()

    async def run():
        engines = [open_engine(old, SETTINGS, shelf.read) for _ in range(2)]
        before = [await probe_logprobs(engine) for engine in engines]
        shelf.weights = weights_of(new)
        manifest = manifest_of(shelf.weights, 1)
        spoil(shelf.weights)
        for engine in engines:
            async with asyncio.TaskGroup() as group:
                meanwhile = group.create_task(draw(engine, request_of(1, max_tokens=30, stop_token_ids=frozenset())))
                with pytest.raises(WeightsRefusedError, match=r"model\.norm\.weight"):
                    await engine.load_weights(manifest, "drain")
            turn = meanwhile.result()
            assert {chunk.policy_version for chunk in turn.chunks} == {0}
            np.testing.assert_allclose(turn.logprobs, plain_logprobs(old, [1, 2, 3, *turn.token_ids], 3), atol=1e-4)
        for engine, (logprobs, version) in zip(engines, before, strict=True):
            after, version_after = await probe_logprobs(engine)
            assert version == version_after == 0
            assert np.array_equal(logprobs, after)
            await engine.close()

    asyncio.run(run())


def test_a_reader_that_fails_leaves_the_old_version_serving():
    def read(manifest):
        raise OSError("the shared folder is gone")

    async def run():
        engine = open_engine(small_model("qwen3"), SETTINGS, read)
        with pytest.raises(OSError, match="the shared folder is gone"):
            await engine.load_weights(manifest_of(weights_of(small_model("qwen3")), 1), "drain")
        assert (await draw(engine, request_of(1))).chunks[0].policy_version == 0
        await engine.close()

    asyncio.run(run())


@every_path
def test_drain_finishes_what_runs_under_the_old_weights_and_later_requests_wait(family):
    old, new, shelf = small_model(family), small_model(family, seed=1), Shelf()
    shelf.weights = weights_of(new)

    async def run():
        engine = open_engine(old, SETTINGS, shelf.read)
        long = engine.generate(request_of(1, max_tokens=50, chunk_tokens=1, stop_token_ids=frozenset()))
        chunks = [await anext(long)]
        async with asyncio.TaskGroup() as group:
            group.create_task(engine.load_weights(manifest_of(shelf.weights, 1), "drain"))
            await asyncio.sleep(0)
            late = group.create_task(draw(engine, request_of(2, max_tokens=3, stop_token_ids=frozenset())))
            chunks += [chunk async for chunk in long]
        assert sum(len(chunk.token_ids) for chunk in chunks) == 50
        assert {chunk.policy_version for chunk in chunks} == {0}
        assert {chunk.policy_version for chunk in late.result().chunks} == {1}
        await engine.close()

    asyncio.run(run())


def test_tied_weights_move_the_head_with_the_embedding_with_or_without_their_second_name():
    old, new, shelf = small_model("qwen3"), small_model("qwen3", seed=1), Shelf()

    async def run():
        engine = open_engine(old, SETTINGS, shelf.read)
        for version, names in ((1, ("lm_head.weight",)), (2, ())):
            shelf.weights = weights_of(new)
            for name in names:
                del shelf.weights[name]
            await engine.load_weights(manifest_of(shelf.weights, version), "drain")
            found, at = await probe_logprobs(engine)
            assert at == version
            np.testing.assert_allclose(found, plain_logprobs(new, [1, 2, 3, 4, 5], 1), atol=1e-4)
        shelf.weights = weights_of(new)
        shelf.weights["lm_head.weight"] += 1
        with pytest.raises(WeightsRefusedError, match="tied in the model"):
            await engine.load_weights(manifest_of(shelf.weights, 3), "drain")
        await engine.close()

    asyncio.run(run())


def test_training_the_served_model_moves_nothing_until_it_is_published():
    for family in FAMILIES:
        model = small_model(family)

        async def run(model=model):
            engine = open_engine(model, SETTINGS, lambda manifest: {})
            before, _ = await probe_logprobs(engine)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(1.0)
            after, _ = await probe_logprobs(engine)
            assert np.array_equal(before, after)
            await engine.close()

        asyncio.run(run())


def test_a_manifest_of_another_policy_or_kind_is_refused():
    async def run():
        engine = open_engine(small_model("qwen3"), SETTINGS, lambda manifest: {})
        whole = manifest_of(weights_of(small_model("qwen3")), 1)
        other = WeightsManifest(
            policy="solver",
            version=1,
            update=1,
            kind="delta",
            base_version=0,
            location="memory:",
            tensors=whole.tensors,
        )
        with pytest.raises(WeightsRefusedError, match="'solver'.*'delta'"):
            await engine.load_weights(other, "drain")
        await engine.close()

    asyncio.run(run())


def test_weights_that_give_no_finite_logits_lose_their_requests_and_leave_no_trace_in_the_caches():
    old, shelf = small_model("qwen3"), Shelf()

    async def run():
        engine = open_engine(old, SETTINGS, shelf.read)
        # Each number is finite, and the first product is not.
        shelf.weights = {name: torch.full_like(tensor, 1e30) for name, tensor in weights_of(old).items()}
        await engine.load_weights(manifest_of(shelf.weights, 1), "drain")
        for number in range(6):
            with pytest.raises(EngineLostError, match="version 1 are not finite"):
                await draw(engine, request_of(number))
        shelf.weights = weights_of(old)
        await engine.load_weights(manifest_of(shelf.weights, 2), "drain")
        for number in range(6):
            turn = await draw(engine, request_of(number, max_tokens=6, stop_token_ids=frozenset()))
            np.testing.assert_allclose(turn.logprobs, plain_logprobs(old, [1, 2, 3, *turn.token_ids], 3), atol=1e-4)
        await engine.close()

    asyncio.run(run())


def test_the_manifest_of_the_learner_is_understood():
    model, shelf = small_model("qwen3", seed=1), Shelf()
    shelf.weights = weights_of(model)
    specs: tuple[TensorSpec, ...] = tensor_specs(shelf.weights)
    assert specs == tuple(sorted(manifest_of(shelf.weights, 1).tensors, key=lambda spec: spec.name))
