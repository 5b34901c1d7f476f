"""A version that a served engine has not taken as the learner gave it is found before anything is sampled from it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest
import torch

from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.learner.forward import make_scorer
from rollwright.learner.probing import context_logprobs
from rollwright.recipes.build.engine import served_rule
from rollwright.recipes.resolve import resolve
from rollwright.runtime.errors import RuntimeRunError
from rollwright.runtime.probes import EngineProbe, fixed_contexts
from tests.engines.battery import manifest_of
from tests.engines.small import VOCAB, small_model

SERVED = resolve("arithmetic-tool", ["engine.kind=vllm"]).recipe
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
LAYER = "model.layers.{}."


def updated(weights, size):
    """As an update of Adam leaves them: each number has moved by the learning rate, one way or the other."""
    chance = torch.Generator().manual_seed(7)
    return {
        name: tensor + size * torch.randn(tensor.shape, generator=chance).sign() for name, tensor in weights.items()
    }


def stale_head(old, new):
    return {**new, HEAD: old[EMBEDDING]}


def skipped_tensor(old, new):
    name = "model.layers.1.self_attn.o_proj.weight"
    return {**new, name: old[name]}


def skipped_norm(old, new):
    return {**new, "model.norm.weight": old["model.norm.weight"]}


def wrong_type(old, new):
    del old
    return {name: tensor.bfloat16().float() for name, tensor in new.items()}


def swapped_layers(old, new):
    del old
    moved = dict(new)
    for name in new:
        for one, other in ((0, 1), (1, 0)):
            if name.startswith(LAYER.format(one)):
                moved[name] = new[name.replace(LAYER.format(one), LAYER.format(other))]
    return moved


def nothing_loaded(old, new):
    del new
    return {**old, HEAD: old[EMBEDDING]}


FAULTS = (stale_head, skipped_tensor, skipped_norm, wrong_type, swapped_layers, nothing_loaded)


def checked(fault, size: float, on_breach: Literal["stop", "warn"] = "stop"):
    """The report on an engine that took the weights of an update with a fault; its head is its own, as vLLM's is."""
    old_model = small_model("qwen3")
    old = {name: t.detach().clone() for name, t in old_model.state_dict().items() if name != HEAD}
    new = updated(old, size)
    old_model.load_state_dict({**new, HEAD: new[EMBEDDING]})
    given = (
        {**new, HEAD: new[EMBEDDING]}
        if fault is None
        else fault({**old, HEAD: old[EMBEDDING]}, {**new, HEAD: new[EMBEDDING]})
    )
    scorer = make_scorer(old_model)
    engine = open_engine(
        small_model("qwen3", tie_word_embeddings=False),
        EmbeddedSettings(num_slots=2, max_context_tokens=32, mode="fast"),
        lambda manifest: given,
    )

    async def run():
        with ThreadPoolExecutor(max_workers=1) as thread:
            probe = EngineProbe(
                engine,
                lambda contexts: context_logprobs(scorer, contexts),
                thread,
                fixed_contexts(VOCAB),
                rule=served_rule(SERVED, on_breach),
            )
            try:
                await engine.load_weights(manifest_of(given, 1), "drain")
                return await probe.check(1)
            finally:
                await engine.close()

    return asyncio.run(run())


def test_weights_that_were_taken_as_they_were_given_are_accepted():
    report = checked(None, 1e-3)
    assert not report.faults
    assert report.max_logprob_gap < 1e-4


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_the_weights_is_found_after_an_ordinary_update(fault):
    with pytest.raises(RuntimeRunError, match="does not agree with the learner"):
        checked(fault, 1e-3)


def test_a_run_may_be_warned_instead():
    assert "log-probability" in str(checked(stale_head, 1e-3, on_breach="warn").warning)


def test_the_bound_of_half_the_bits_is_wider():
    half = resolve("arithmetic-tool", ["engine.kind=vllm", "engine.dtype=bfloat16"]).recipe
    assert served_rule(half, "stop").max_logprob_gap > served_rule(SERVED, "stop").max_logprob_gap
