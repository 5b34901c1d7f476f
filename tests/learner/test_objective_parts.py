"""What an objective's parts ask of the learner: looks at whole updates, rows without advantage, corrections, counts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import distributed

from rollwright.algorithms import (
    Objective,
    Surrogate,
    TokenMean,
    bypass_ratio,
    grpo,
    keep_all,
    staleness_ratio,
    token_ratio,
)
from rollwright.algorithms.corrections.masked_ratio import MaskedRatio
from rollwright.algorithms.corrections.self_normalized import self_normalizing
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.objective import UpdateStage
from rollwright.algorithms.stages import made_by
from rollwright.batches import plan_step, plan_updates, receipts_of, update_metrics
from rollwright.learner.logprobs import score_tokens
from rollwright.learner.ranks import own_share
from tests.algorithms.test_corrections import contributions
from tests.algorithms.test_ratio_and_clip import streams
from tests.batches.episodes import NOW, ON_POLICY, POLICY, Forest, chat, episode, group
from tests.cases import case
from tests.learner.small import batch_of, first_gradient, learner_of, relative_gap, two_turn_groups

BOTH = frozenset({"behavior", "proximal"})


def above_the_mean(piece, generator):
    """Tokens whose proximal score lies above the mean of the update: none knows it alone."""
    del generator
    scores = piece.logprobs["proximal"]
    return scores > scores[piece.action_mask].mean()


def only_selected(ratio, piece):
    right = grpo().surrogate(ratio, piece)
    return replace(right, per_token=torch.where(made_by(piece, "selected") != 0, right.per_token, 0.0))


SELECTIVE = replace(
    grpo(), surrogate=only_selected, stages=(UpdateStage(name="selected", make=above_the_mean),), needs=BOTH
)


def train(objective: Objective, groups=None, **settings):
    learner = learner_of(**settings)
    batch = batch_of(groups or two_turn_groups(), objective)
    done = learner.train(batch, objective, first_update=1).updates
    return learner, done


# --------------------------------------------------------------------------------------------- looks at whole updates


def test_a_stage_looks_at_scores_of_the_weights_that_stand():
    _, (done,) = train(SELECTIVE)
    mask = done.plan.batch.action_mask
    before = learner_of().score(done.plan.batch).logprobs
    assert (done.plan.batch.scores["proximal"] == before)[mask].all()
    due = mask & (before > before[mask].mean())
    assert (done.plan.made["selected"] == due).all()
    losses = done.outcome.token_losses["policy_gradient"]
    assert not losses[~due].any() and losses[due].any()
    assert (done.outcome.proximal == before)[mask].all()


@pytest.mark.parametrize(
    "objective", [SELECTIVE, self_normalizing(replace(grpo(), correction=staleness_ratio, needs=BOTH))]
)
def test_how_an_update_with_stages_is_cut_changes_nothing(objective):
    whole, (done,) = train(objective)
    cut, (pieces,) = train(objective, token_budget=30)
    assert pieces.outcome.loss == pytest.approx(done.outcome.loss, rel=1e-5, abs=1e-9)
    assert relative_gap(first_gradient(whole), first_gradient(cut)) < 1e-5


def test_a_second_update_looks_at_the_scores_before_the_first():
    _, updates = train(SELECTIVE, num_minibatches=1, num_epochs=2)
    first, second = updates
    assert (first.plan.made["selected"] == second.plan.made["selected"]).all()
    current = second.outcome.current
    assert current is not None and not np.array_equal(current, first.plan.batch.scores["proximal"], equal_nan=True)


def test_entropies_are_scored_for_stages_that_need_them():
    def entropies(piece, generator):
        del generator
        return piece.entropy

    objective = replace(
        grpo(), stages=(UpdateStage(name="seen", make=entropies),), needs=frozenset({"entropy", "behavior"})
    )
    objective = replace(objective, ratio=bypass_ratio)
    _, (done,) = train(objective)
    mask = done.plan.batch.action_mask
    assert (done.plan.made["seen"] == done.outcome.entropy)[mask].all()
    assert "proximal" not in done.plan.batch.scores


# ------------------------------------------------------------------------------------------- rows without an advantage


def regressing(ratio, piece):
    """A loss that pulls every row back, advantage or not."""
    return Surrogate(
        per_token=-((piece.advantages - 0.1 * ratio) ** 2),
        flags=torch.zeros_like(piece.action_mask, dtype=torch.int32),
    )


def test_rows_of_groups_without_contrast_are_differentiated_where_an_objective_acts_without_advantage():
    level = two_turn_groups(2, rewards=(1, 1, 1))
    regression = replace(grpo(), surrogate=regressing, acts_without_advantage=True)
    learner, (done,) = train(regression, level)
    assert done.outcome.is_applied and done.outcome.grad_norm > 0
    assert any(tensor.abs().max() > 0 for tensor in first_gradient(learner).values())
    # Said wrongly, the same rows are scored and never differentiated.
    _, (quiet,) = train(replace(regression, acts_without_advantage=False), level)
    assert quiet.outcome.grad_norm == 0.0


# --------------------------------------------------------------------------------------------------------- corrections


def metrics_of(objective: Objective, groups=None):
    """Name with labels to value, of the only update; and the ratios of its trained tokens."""
    _, (done,) = train(objective, groups)
    plan, outcome = done
    assert outcome.proximal is not None
    metrics = update_metrics(plan, outcome, objective, now=NOW)
    named = {
        " ".join([m.name, *(f"{k}={v}" for k, v in sorted(m.labels.items()) if k != "model")]): m.value for m in metrics
    }
    mask = plan.batch.action_mask
    return named, np.exp((outcome.proximal - plan.batch.behavior)[mask].astype(np.float64)), done


def two_sources():
    """A group from each of two sources, whose members answer in few and in many tokens."""
    groups = []
    for number, source in enumerate(("code", "maths")):
        members = []
        for slot in range(3):
            forest = Forest()
            forest.add("task", [1, 2, 3])
            ids = [(7 * i + slot + number) % 60 for i in range(5 if number else 140)]
            forest.add("policy", ids, scores=[-0.2 - 0.15 * (i % 40) for i in range(len(ids))])
            forest.add("tool", [4, 5])
            members.append(episode(forest.segments, group=number, slot=slot, outcome=float(slot == 0), source=source))
        groups.append(group(*members))
    return groups


@pytest.mark.row("S172")
def test_a_ratio_above_the_cap_counts_the_cap_and_the_share_of_such_tokens_is_a_metric():
    assert contributions(keep_all, TruncatedRatio(cap=5.0), [6.0]) == pytest.approx([5.0])
    cap = 1.5
    objective = replace(grpo(), correction=TruncatedRatio(cap=cap), needs=BOTH)
    named, ratios, done = metrics_of(objective, two_sources())
    share = float((ratios > cap).mean())
    assert 0 < share < 1
    assert named["is/frac_truncated"] == pytest.approx(share)
    used = done.outcome.correction
    assert used is not None
    assert used[done.plan.batch.action_mask] == pytest.approx(np.minimum(ratios, cap), rel=1e-5)


@pytest.mark.row("S174", "S177")
def test_ratios_out_of_their_band_count_nothing_and_their_share_is_a_metric_by_source_and_length():
    assert contributions(MaskedRatio(low=0.5, high=5.0), staleness_ratio, [6.0, 1.0]) == pytest.approx([0.0, 1.0])
    low, high = 0.2, 1.5
    objective = replace(grpo(), keep=MaskedRatio(low=low, high=high), correction=staleness_ratio, needs=BOTH)
    named, ratios, done = metrics_of(objective, two_sources())
    outside = (ratios < low) | (ratios > high)
    assert 0 < outside.mean() < 1
    assert named["policy/mask_frac"] == pytest.approx(outside.mean())
    assert named["policy/mask_frac reason=token"] == pytest.approx(outside.mean())
    batch = done.plan.batch
    lengths = np.repeat(np.diff(batch.row_offsets), np.diff(batch.row_offsets))[batch.action_mask]
    for label, where in (("source=code", lengths > 50), ("source=maths", lengths < 50)):
        assert named[f"policy/mask_frac {label}"] == pytest.approx(outside[where].mean())
    for label, where in (("length=129-512", lengths > 50), ("length=1-128", lengths < 50)):
        assert named[f"policy/mask_frac {label}"] == pytest.approx(outside[where].mean())
    losses = done.outcome.token_losses["policy_gradient"][batch.action_mask]
    assert not losses[outside].any(), "neither the bound nor anything else"


def test_receipts_say_which_tokens_a_correction_cut():
    objective = replace(grpo(), keep=MaskedRatio(low=0.2, high=1.5), correction=staleness_ratio, needs=BOTH)
    _, _, done = metrics_of(objective, two_sources())
    kept = sum(receipt.num_kept for receipt in receipts_of(done.plan, done.outcome, objective))
    assert kept == int((done.outcome.keep & done.plan.batch.action_mask).sum()) > 0


@pytest.mark.row("S171")
def test_both_ratios_of_the_decoupled_objective_are_one_where_policies_match():
    objective = replace(grpo(), correction=staleness_ratio, needs=BOTH)
    batch = batch_of(two_turn_groups(), objective)
    learner = learner_of()
    same = replace(batch, behavior=learner.score(batch).logprobs)
    (done,) = learner.train(same, objective, first_update=1).updates
    assert done.outcome.correction is None, "1 everywhere, to the last bit"
    assert done.outcome.proximal is not None
    assert np.array_equal(done.outcome.proximal[batch.action_mask], same.behavior[batch.action_mask])


# -------------------------------------------------------------------------------------------------------------- counts


@pytest.mark.case("F04")
def test_ranks_share_rows_and_the_count_of_tokens_is_that_of_the_update():
    given_case = case("F04")
    counts = given_case.input["mask_tokens_by_dp_rank"]
    groups = [
        group(*(episode(chat(("task", 1), ("policy", n)), slot=s, outcome=float(s)) for s, n in enumerate(counts)))
    ]
    objective = grpo(weights=TokenMean())
    batch = plan_step(groups, step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    (plan,) = plan_updates(batch, objective, first_update=1, num_minibatches=1)
    num_ranks = len(given_case.input["ranks_in_reduce"])
    assert num_ranks == given_case.input["dp"] * given_case.input["cp"]
    shares = [share_of_rank(rank, num_ranks, plan) for rank in range(num_ranks)]
    assert sorted(row for share in shares for row in share.rows) == [0, 1], "no two ranks hold one row"
    assert {share.denominators["policy_gradient"] for share in shares} == {given_case.expect["global_tokens"]}
    weights, offsets = plan.token_weights["policy_gradient"], batch.row_offsets
    summed = sum(weights[offsets[row] : offsets[row + 1]].sum() for share in shares for row in share.rows)
    assert summed == pytest.approx(1.0)


def share_of_rank(rank, num_ranks, plan):
    """The rows of one rank among several, whose messages go nowhere."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", rank=rank, world_size=num_ranks, store=FakeStore())
    try:
        return own_share(plan)
    finally:
        distributed.destroy_process_group()


def test_half_precision_states_keep_the_ratio_of_one_at_equal_weights():
    draws = torch.Generator().manual_seed(2)
    hidden = (3 * torch.randn(300, 32, generator=draws)).to(torch.bfloat16)
    head = torch.randn(61, 32, generator=draws)
    targets = torch.randint(61, (300,), generator=draws)
    heat = torch.full((300,), 0.7)
    with torch.autocast("cpu", torch.bfloat16):
        before, after = (score_tokens(hidden, head, targets, heat).logprobs for _ in range(2))
    assert token_ratio(streams([1.0] * 300, current=after, proximal=before)).tolist() == [1.0] * 300
    exact = (hidden.double() @ head.double().t() / 0.7).log_softmax(1).gather(1, targets[:, None])[:, 0]
    assert (before.double() - exact).abs().max() < 1e-4
    halved = (hidden @ head.to(torch.bfloat16).t() / 0.7).log_softmax(1).gather(1, targets[:, None])[:, 0]
    assert (halved.double() - exact).abs().max() > 0.1, "logits in half precision would move the ratio by a tenth"
