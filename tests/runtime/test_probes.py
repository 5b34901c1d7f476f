"""After each publication engine and learner are asked the same, and an engine with other weights is found."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.learner.forward import make_scorer
from rollwright.learner.probing import context_logprobs
from rollwright.record import Engine, Scores
from rollwright.runtime.errors import RuntimeRunError
from rollwright.runtime.probes import EngineProbe, ProbeRule, fixed_contexts, probe_metrics
from tests.engines.battery import manifest_of
from tests.engines.small import VOCAB, small_model
from tests.runtime.fakes import NOON

TINY = {"head_dim": 16, "hidden_size": 32, "intermediate_size": 48}
CONTEXTS = fixed_contexts(VOCAB, num_contexts=3, num_tokens=12)
SETTINGS = EmbeddedSettings(num_slots=2, max_context_tokens=32, mode="fast")


@dataclass
class Through:
    """Passes scores on, changed; what is not asked here is not there."""

    engine: Engine
    change: Callable[[Scores], Scores] | None = None

    async def score(self, request) -> Scores:
        scores = await self.engine.score(request)
        return scores if self.change is None else self.change(scores)


class Pair:
    """A learner's model and an engine that takes its weights, or only says so."""

    def __init__(self, family="qwen3", **rule):
        self.model = small_model(family, **TINY)
        self.given = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        self.scorer = make_scorer(self.model)
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.engine = open_engine(small_model(family, **TINY), SETTINGS, lambda manifest: self.given)
        self.through = Through(self.engine)
        self.probe = EngineProbe(
            self.through,  # pyright: ignore[reportArgumentType] - the probe only scores
            lambda contexts: context_logprobs(self.scorer, contexts),
            self.thread,
            CONTEXTS,
            rule=ProbeRule(**rule),
        )

    def train(self, size=0.05, seed=0):
        """An update."""
        chance = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=chance) * size)

    async def publish(self, version):
        self.given = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        await self.engine.load_weights(manifest_of(self.given, version), "drain")

    async def publish_nothing(self, version):
        """The old numbers under the new version."""
        await self.engine.load_weights(manifest_of(self.given, version), "drain")

    async def publish_disturbed(self, version, name, by):
        """One tensor arrives otherwise, and nobody compares digests."""
        given = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        del given["lm_head.weight"]  # Tied to the embedding, whose name is enough.
        given[name].view(-1)[0] += by
        self.given = given
        await self.engine.load_weights(manifest_of(given, version), "drain")

    async def close(self):
        await self.engine.close()
        self.thread.shutdown()


def run(body, *args, **rule) -> Any:
    async def go():
        pair = Pair(*args, **rule)
        try:
            async with asyncio.timeout(120):
                return await body(pair)
        finally:
            await pair.close()

    return asyncio.run(go())


@pytest.mark.parametrize("family", ["qwen3", "mistral"], ids=("fast path", "generic path"))
def test_an_engine_with_the_learners_weights_agrees_to_the_last_bits_after_each_publication(family):
    async def body(pair):
        reports = [await pair.probe.check(0)]
        for version in (1, 2):
            pair.train(seed=version)
            await pair.publish(version)
            reports.append(await pair.probe.check(version))
        return reports

    for version, report in enumerate(run(body, family)):
        assert (report.version, report.num_positions, report.warning) == (version, 33, None)
        assert report.has_equal_ids and report.greedy_match == report.topk_identity == 1.0
        assert report.max_logprob_gap < 1e-4 and report.max_logit_gap < 1e-4


@pytest.mark.case("F87")
def test_an_engine_that_silently_kept_the_old_weights_stops_the_run():
    async def body(pair):
        await pair.probe.check(0)
        pair.train()
        await pair.publish_nothing(1)
        with pytest.raises(RuntimeRunError) as caught:
            await pair.probe.check(1)
        return str(caught.value)

    sentence = run(body)
    assert "should serve version 1 does not agree" in sentence
    assert "log-probability" in sentence and "nearer to the weights published before" in sentence


def test_old_weights_are_found_even_where_an_update_moves_less_than_the_bound():
    async def body(pair):
        await pair.probe.check(0)
        pair.train(size=1e-4)
        await pair.publish_nothing(1)
        kept = await pair.probe.check(1)
        await pair.publish(2)
        return kept, await pair.probe.check(2)

    kept, right = run(body, max_logprob_gap=10.0, max_logit_gap=10.0, on_breach="warn")
    assert kept.faults == ("it is nearer to the weights published before than to these",)
    assert right.warning is None


def test_an_engine_that_is_made_again_is_held_to_what_the_learner_said_at_the_last_check():
    async def body(pair):
        assert await pair.probe.fault_of(pair.through, 0) is None, "nothing was checked yet"
        await pair.probe.check(0)
        assert await pair.probe.fault_of(pair.through, 0) is None
        sound = pair.given
        await pair.publish_disturbed(0, "model.norm.weight", 0.5)
        fault = await pair.probe.fault_of(pair.through, 0)
        pair.given = sound
        await pair.publish_nothing(0)
        pair.train()
        assert await pair.probe.fault_of(pair.through, 0) is None, "the learner has moved on, and is not asked"
        assert await pair.probe.fault_of(pair.through, 1) is None, "another version is checked when it is published"
        return fault

    assert "log-probability" in run(body)


def test_a_publication_without_a_change_is_not_taken_for_old_weights():
    async def body(pair):
        await pair.probe.check(0)
        await pair.publish(1)
        return await pair.probe.check(1)

    assert run(body).warning is None


@pytest.mark.parametrize(
    "name",
    ["model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight", "model.layers.0.self_attn.q_norm.weight"],
)
def test_one_tensor_that_differs_in_one_number_is_found(name):
    async def body(pair):
        pair.train()
        await pair.publish_disturbed(1, name, 1.0)
        return await pair.probe.check(1)

    report = run(body, on_breach="warn")
    assert report.warning is not None and "log-probability" in report.warning
    assert report.max_logprob_gap > 0.01


def test_an_engine_that_says_another_version_is_found_though_its_numbers_are_right():
    async def body(pair):
        return await pair.probe.check(7)

    assert run(body, on_breach="warn").faults == ("it says that version 0 serves",)


def test_numbers_that_are_not_finite_are_an_infinite_gap_and_a_null_metric():
    async def body(pair):
        pair.through.change = lambda scores: replace(scores, logprobs=np.full_like(scores.logprobs, np.nan))
        return await pair.probe.check(0)

    report = run(body, on_breach="warn")
    assert report.max_logprob_gap == float("inf") and "inf" in str(report.warning)
    metrics = {metric.name: metric for metric in probe_metrics(report, step=0, now=NOON)}
    assert metrics["mismatch/probe_logp_abs"].value is None
    assert metrics["mismatch/probe_logit_abs"].value is not None


def test_a_token_that_the_learner_alone_thinks_likely_counts():
    def swapped(scores):
        """The engine's best token of each position is another one than the learner's."""
        wrong = scores.tensors["topk_ids"].copy()
        wrong[:, 0] = (wrong[:, 0] + 1) % VOCAB
        return replace(scores, tensors={**scores.tensors, "topk_ids": wrong})

    async def body(pair):
        pair.through.change = swapped
        return await pair.probe.check(0)

    report = run(body, top_k=1, on_breach="warn")
    assert (report.greedy_match, report.topk_identity, report.has_equal_ids) == (0.0, 0.0, False)
    assert report.max_logprob_gap > 0.1


def test_the_metrics_are_those_of_the_catalogue():
    async def body(pair):
        return await pair.probe.check(0)

    metrics = {metric.name: metric for metric in probe_metrics(run(body), step=3, now=NOON)}
    assert metrics["mismatch/token_ids"].value == 1.0 and metrics["mismatch/greedy_match"].value == 1.0
    assert {metric.step for metric in metrics.values()} == {3}
    assert {metric.num_items for metric in metrics.values()} == {33}


def test_an_engine_that_does_not_answer_in_time_is_an_error():
    class Silent:
        async def score(self, request):
            await asyncio.Event().wait()

    async def body(pair):
        pair.probe = EngineProbe(
            Silent(),  # pyright: ignore[reportArgumentType] - the probe only scores
            lambda contexts: context_logprobs(pair.scorer, contexts),
            pair.thread,
            CONTEXTS,
            rule=ProbeRule(deadline_s=0.05),
        )
        with pytest.raises(RuntimeRunError, match="did not score"):
            await pair.probe.check(0)

    run(body)


def test_a_probe_without_contexts_or_bounds_is_refused():
    with pytest.raises(RuntimeRunError, match="at least two tokens"):
        EngineProbe(None, None, None, [CONTEXTS[0][:1]], rule=ProbeRule())  # pyright: ignore[reportArgumentType] - refused first
    with pytest.raises(RuntimeRunError, match="top_k=0"):
        ProbeRule(top_k=0)


def test_fixed_contexts_are_the_same_each_time_and_differ_among_each_other():
    first, again = fixed_contexts(512), fixed_contexts(512)
    assert [c.tolist() for c in first] == [c.tolist() for c in again]
    assert len({c.tolist()[0] for c in first}) == 4 and all(0 <= c.min() and c.max() < 512 for c in first)
