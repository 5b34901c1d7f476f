"""An engine that computes otherwise than the learner is measured, stopped at the probe's bound, or corrected for."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from rollwright.algorithms import grpo
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.staleness.candidate_gate import GapGate
from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.runtime.errors import RuntimeRunError
from rollwright.runtime.probes import EngineProbe, ProbeReport, ProbeRule, fixed_contexts
from tests.batches.episodes import Forest, episode, group
from tests.engines.small import draw, request_of, small_model
from tests.learner.small import batch_of, learner_of, lively_model

TINY = {"head_dim": 16, "hidden_size": 32, "intermediate_size": 48}
FAST = EmbeddedSettings(num_slots=4, max_context_tokens=64, mode="fast")


def scores_by(model):
    """The learner's side of the probe, by the model's own forward pass."""

    def score(contexts):
        with torch.no_grad():
            tables = [model(torch.tensor(np.asarray(c, np.int64))[None]).logits[0, :-1] for c in contexts]
        return [table.float().log_softmax(-1).numpy() for table in tables]

    return score


def report_of(engine_model, learner_model, settings=FAST, **rule) -> ProbeReport:
    contexts = fixed_contexts(engine_model.config.vocab_size, num_contexts=3, num_tokens=12)

    async def check():
        engine = open_engine(engine_model, settings, lambda manifest: {})
        with ThreadPoolExecutor(max_workers=1) as thread:
            probe = EngineProbe(engine, scores_by(learner_model), thread, contexts, rule=ProbeRule(**rule))
            try:
                return await probe.check(0)
            finally:
                await engine.close()

    return asyncio.run(check())


# ---------------------------------------------------------------------------------------------------- reduction orders


class Split(nn.Module):
    """A product summed in parts, as ranks that share it would sum theirs."""

    def __init__(self, linear: nn.Linear, parts: int) -> None:
        super().__init__()
        self.linear, self.parts = linear, parts

    def forward(self, given):
        weights = self.linear.weight.chunk(self.parts, dim=1)
        products = [part @ weight.T for part, weight in zip(given.chunk(self.parts, dim=-1), weights, strict=True)]
        total = products[-1]
        for product in reversed(products[:-1]):
            total = total + product
        return total


def summed_in(parts: int):
    """The same weights, every product in so many parts."""
    model = deepcopy(small_model("qwen3", **TINY))
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                assert "bias" not in dict(child.named_parameters())
                setattr(module, name, Split(child, parts))
    return model


@pytest.mark.row("S208")
def test_other_orders_of_a_sum_show_in_the_probe_and_a_tolerance_below_them_blocks_the_run():
    served = small_model("qwen3", **TINY)
    gaps = {parts: report_of(served, summed_in(parts)).max_logit_gap for parts in (2, 8)}
    assert all(0 < gap < 1e-4 for gap in gaps.values()) and len(set(gaps.values())) == 2
    for parts, gap in gaps.items():
        with pytest.raises(RuntimeRunError, match="the largest difference of a logit"):
            report_of(served, summed_in(parts), max_logit_gap=gap / 2, on_breach="stop")
        assert report_of(served, summed_in(parts), max_logit_gap=gap * 2).warning is None


# ----------------------------------------------------------------------------------------------------------- precision


def quantized(model):
    """The model with weights of eight bits: what an engine would serve that holds them so."""
    made = deepcopy(model)
    with torch.no_grad():
        for parameter in made.parameters():
            scale = parameter.abs().max() / 448
            parameter.copy_((parameter / scale).to(torch.float8_e4m3fn).float() * scale)
    return made


@pytest.mark.row("S206")
def test_the_precision_of_the_engine_changes_the_gap_that_the_probe_sees():
    model = small_model("qwen3", **TINY)
    single = report_of(model, model, on_breach="warn")
    halved = deepcopy(model)
    halved.bfloat16()
    half = report_of(halved, model, replace(FAST, dtype="bfloat16"), on_breach="warn")
    assert single.warning is None and single.max_logprob_gap < 1e-4
    assert half.max_logprob_gap > 10 * single.max_logprob_gap


@pytest.mark.row("S207", "S249")
def test_an_engine_of_low_precision_does_not_pass_the_probe_and_where_it_may_go_on_its_tokens_are_corrected():
    model = lively_model()
    low = quantized(model)
    with pytest.raises(RuntimeRunError, match="does not agree with the learner on fixed contexts"):
        report_of(low, model, on_breach="stop")
    assert report_of(low, model, on_breach="warn").warning is not None
    assert report_of(model, model, on_breach="stop").warning is None, "one of full precision passes"

    async def sampled():
        engine = open_engine(low, FAST, lambda manifest: {})
        turns = [
            await draw(engine, request_of(n, (1, 2, 3), max_tokens=12, stop_token_ids=frozenset())) for n in range(4)
        ]
        await engine.close()
        return turns

    members = []
    for slot, turn in enumerate(asyncio.run(sampled())):
        forest = Forest()
        forest.add("task", [1, 2, 3])
        forest.add("policy", turn.token_ids, scores=turn.logprobs.tolist())
        members.append(episode(forest.segments, slot=slot, outcome=float(slot % 2)))
    cap = 1.05
    objective = replace(grpo(), correction=TruncatedRatio(cap=cap), needs=frozenset({"behavior", "proximal"}))
    batch = batch_of([group(*members)], objective)
    learner = learner_of(model)
    ratios = np.exp(learner.score(batch).logprobs - batch.behavior)[batch.action_mask]
    assert np.abs(ratios - 1).max() > 0.01, "the engine sampled from another distribution than the learner's"
    (done,) = learner.train(batch, objective, first_update=1).updates
    used = done.outcome.correction
    assert used is not None and done.outcome.is_applied
    assert used[batch.action_mask] == pytest.approx(np.minimum(ratios, cap), rel=1e-4)
    assert (ratios > cap).any()


@pytest.mark.row("S178")
def test_a_candidate_whose_gap_to_the_engine_grew_is_rejected_and_one_that_came_nearer_is_accepted():
    """The engine holds each candidate in eight bits; the probe says how far that is from the candidate itself."""
    gate = GapGate(metric="mismatch/probe_logp_abs")

    def gap_of(candidate):
        return report_of(quantized(candidate), candidate, on_breach="warn").max_logprob_gap

    standing = small_model("qwen3", **TINY)
    spread, on_grid = deepcopy(standing), quantized(standing)
    with torch.no_grad():
        for parameter in spread.parameters():
            # One large number makes the steps of eight bits coarse for all others.
            parameter.view(-1)[0] = 40 * parameter.abs().max()
    gaps = {name: gap_of(model) for name, model in (("standing", standing), ("spread", spread), ("on grid", on_grid))}
    assert gaps["on grid"] < gaps["standing"] < gaps["spread"]
    accepted = [gate.accept_candidate({"mismatch/probe_logp_abs": gaps[name]}) for name in gaps]
    assert accepted == [True, False, True]
    assert gate.state() == {"mismatch/probe_logp_abs": gaps["on grid"]}
