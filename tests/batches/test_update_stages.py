"""Streams of whole updates in plans and micro-batches, and the numbers of sources."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import TokenMean, bypassing_proximal, grpo, staleness_ratio
from rollwright.algorithms.corrections.self_normalized import self_normalizing
from rollwright.algorithms.denominators.source_balance import SourceBalance
from rollwright.algorithms.objective import UpdateStage
from rollwright.batches import BatchError, credit_inputs, cut, plan_step, plan_updates, source_number, with_score
from tests.batches.episodes import ON_POLICY, POLICY, chat, episode, group
from tests.batches.strategies import steps

NEEDS = frozenset({"behavior", "proximal"})


def looking(make, needs=NEEDS):
    """An objective with one stage that looks at whole updates."""
    return replace(grpo(), stages=(UpdateStage(name="seen", make=make),), needs=needs)


def counting(piece, _):
    """At every action token, how many the update has."""
    return torch.full(piece.action_mask.shape, float(piece.action_mask.sum()))


def drawing(piece, generator):
    return torch.rand(len(piece.action_mask), generator=generator)


def scored(groups, objective, *, step=1):
    batch = plan_step(groups, step=step, objective=objective, eligible=POLICY, rules=ON_POLICY)
    return with_score(batch, "proximal", np.where(batch.action_mask, batch.behavior, np.nan).astype(np.float32))


def plans(groups, make, *, step=1, first_update=1, **options):
    objective = looking(make)
    batch = scored(groups, objective, step=step)
    return plan_updates(batch, objective, first_update=first_update, **{"num_minibatches": 1, **options})


@given(steps(), st.integers(1, 3))
def test_a_stage_sees_the_rows_of_its_update_and_no_others(groups, wanted):
    num = min(wanted, sum(len(g.members) for g in groups))
    for plan in plans(groups, counting, num_minibatches=num):
        offsets = plan.batch.row_offsets
        mine = np.zeros(len(plan.batch.token_ids), np.bool_)
        for row in plan.rows:
            mine[offsets[row] : offsets[row + 1]] = plan.batch.action_mask[offsets[row] : offsets[row + 1]]
        assert plan.made["seen"].tolist() == np.where(mine, mine.sum(), 0).tolist()


@given(steps())
def test_streams_of_stages_travel_with_their_tokens_however_an_update_is_cut(groups):
    (plan,) = plans(groups, drawing)
    for micro in cut(plan, token_budget=7):
        stream = micro.made["seen"]
        assert stream.tolist() == plan.made["seen"][micro.token_index.numpy()].tolist()
        assert not stream[~micro.action_mask].any()


def three_groups():
    return [
        group(*(episode(chat(("task", 1), ("policy", 4)), group=g, slot=s, outcome=float(s)) for s in range(2)))
        for g in range(3)
    ]


def test_draws_are_a_function_of_step_and_update_alone():
    first, second = (plan.made["seen"] for plan in plans(three_groups(), drawing, num_epochs=2))
    again = plans(list(reversed(three_groups())), drawing, num_epochs=2)
    assert [plan.made["seen"].tolist() for plan in again] == [first.tolist(), second.tolist()]
    assert first.tolist() != second.tolist()
    (later,) = plans(three_groups(), drawing, first_update=2)
    assert later.made["seen"].tolist() == second.tolist()


def test_without_stages_nothing_is_made():
    batch = plan_step(three_groups(), step=1, objective=grpo(), eligible=POLICY, rules=ON_POLICY)
    (plan,) = plan_updates(batch, grpo(), first_update=1, num_minibatches=1)
    assert plan.made == {}
    assert all(micro.made == {} for micro in cut(plan, token_budget=100))


def test_a_stage_that_reads_what_was_not_scored_is_refused():
    objective = looking(counting)
    batch = plan_step(three_groups(), step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    with pytest.raises(BatchError, match=r"no \['proximal'\]"):
        plan_updates(batch, objective, first_update=1, num_minibatches=1)


def test_in_bypass_mode_a_stage_has_behavior():
    objective = looking(lambda piece, _: piece.logprobs["behavior"], needs=frozenset({"behavior"}))
    objective = replace(bypassing_proximal(grpo()), stages=objective.stages)
    batch = plan_step(three_groups(), step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    (plan,) = plan_updates(batch, objective, first_update=1, num_minibatches=1)
    assert plan.made["seen"].tolist() == np.where(batch.action_mask, batch.behavior, 0).tolist()


def test_a_stage_may_read_entropies_and_the_weights_of_its_tokens():
    def weighed(piece, _):
        return piece.entropy * piece.token_weights

    objective = looking(weighed, needs=NEEDS | {"entropy"})
    batch = scored(three_groups(), objective)
    batch = with_score(batch, "entropy", np.full(len(batch.token_ids), 0.5, np.float32))
    (plan,) = plan_updates(batch, objective, first_update=1, num_minibatches=1)
    due = np.where(batch.action_mask, 0.5 * plan.token_weights["policy_gradient"], 0.0)
    assert plan.made["seen"].tolist() == pytest.approx(due.tolist())
    assert "entropy" not in credit_inputs(batch, range(6), batch.acts).logprobs, "entropies are no log-probabilities"


def test_weights_are_normalised_over_each_update_by_itself():
    objective = self_normalizing(replace(grpo(), correction=staleness_ratio, needs=NEEDS))
    batch = plan_step(three_groups(), step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    draws = np.random.default_rng(3).normal(size=len(batch.token_ids)).astype(np.float32)
    batch = with_score(batch, "proximal", batch.behavior + draws)
    for plan in plan_updates(batch, objective, first_update=1, num_minibatches=3):
        mine = plan.token_weights["policy_gradient"] > 0
        found = plan.made["self_normalized"]
        assert found[mine].mean() == pytest.approx(1.0, rel=1e-6) and not found[~mine].any()
        ratios = np.exp(draws[mine])
        assert found[mine].tolist() == pytest.approx((ratios / ratios.mean()).tolist(), rel=1e-5)


# -------------------------------------------------------------------------------------------------------------- sources


def of_sources(*sources):
    return [
        group(episode(chat(("task", 1), ("policy", 2)), group=g, outcome=1.0, source=source))
        for g, source in enumerate(sources)
    ]


def test_a_source_has_its_number_whatever_else_is_in_the_batch():
    for names in (("maths", "search", "code"), ("search",), ("code", "search")):
        batch = plan_step(of_sources(*names), step=1, objective=grpo(), eligible=POLICY, rules=ON_POLICY)
        found = credit_inputs(batch, range(len(names)), batch.acts).source_index.tolist()
        assert found == [source_number(name) for name in names]


def test_targets_of_sources_hold_in_batches_that_lack_one():
    targets = {source_number(name): share for name, share in {"code": 0.2, "maths": 0.3, "search": 0.5}.items()}
    objective = replace(grpo(), weights=SourceBalance(base=TokenMean(), targets=targets))
    batch = plan_step(of_sources("search", "maths"), step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    (plan,) = plan_updates(batch, objective, first_update=1, num_minibatches=1)
    weights = plan.token_weights["policy_gradient"][batch.action_mask]
    assert weights.reshape(2, 2).sum(1).tolist() == pytest.approx([0.5, 0.3])
    assert plan.weight_sums["policy_gradient"] == pytest.approx(0.8)
