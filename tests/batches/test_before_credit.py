"""Between layout and credit a batch takes on what its credit reads, each stream on the tokens that act."""

from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest
import torch

from rollwright.algorithms import grpo, rloo
from rollwright.algorithms.credit.generalized_advantage import generalized_advantage
from rollwright.algorithms.credit.kl_in_reward import kl_in_reward
from rollwright.algorithms.credit.level_groups import learn_from_level_groups
from rollwright.algorithms.credit.optimal_token import optimal_token_baseline
from rollwright.algorithms.errors import ObjectiveError
from rollwright.batches import credit_inputs, give_credit, lay_out, plan_step, with_score
from tests.batches.episodes import ON_POLICY, POLICY, Forest, chat, episode, group
from tests.cases import case

BETA = 0.125


def two_groups(*rewards):
    """Two groups of as many members as there are rewards."""
    return [
        group(
            *(
                episode(
                    chat(("task", 2), ("policy", 3), ("tool", 2), ("policy", 2 + slot)), group=n, slot=slot, outcome=r
                )
                for slot, r in enumerate(rewards)
            )
        )
        for n in range(2)
    ]


def drafted(groups):
    return lay_out(groups, step=1, eligible=POLICY, rules=ON_POLICY)


def scored(draft, *names, seed=0):
    """The draft with made-up scores of every token that acts."""
    draws = np.random.default_rng(seed)
    for name in names:
        values = draws.uniform(0.1, 0.9, len(draft.token_ids)).astype(np.float32)
        values = values if name in ("entropy", "sum_squared_probabilities") else -values
        draft = with_score(draft, name, np.where(draft.acts, values, np.float32(np.nan)))
    return draft


def test_a_step_in_two_parts_is_the_same_step():
    groups = two_groups(1.0, 0.0)
    whole = plan_step(groups, step=1, objective=rloo(), eligible=POLICY, rules=ON_POLICY)
    parts = give_credit(drafted(groups), rloo(), rules=ON_POLICY)
    for one in fields(whole):
        left, right = getattr(whole, one.name), getattr(parts, one.name)
        if isinstance(left, np.ndarray):
            assert np.array_equal(left, right, equal_nan=left.dtype.kind == "f"), one.name
        elif one.name not in ("facts", "members", "rows"):
            assert left == right, one.name
    for left, right in zip(whole.rows, parts.rows, strict=True):
        assert (left.owns, left.withheld, left.lag) == (right.owns, right.withheld, right.lag)


def test_a_draft_has_no_credit_and_trains_nothing():
    draft = drafted(two_groups(1.0, 0.0))
    assert draft.acts.any() and not draft.action_mask.any() and not draft.advantages.any()


def test_credit_reads_each_stream_on_the_tokens_that_act():
    names = ("proximal", "reference", "entropy", "sum_squared_probabilities")
    draft = scored(drafted(two_groups(1.0, 0.0)), *names)
    inputs = credit_inputs(draft, range(len(draft.rows)), draft.acts)
    assert set(inputs.logprobs) == {"behavior", "proximal", "reference"}
    assert set(inputs.values) == {"entropy", "sum_squared_probabilities"}
    for name in names:
        found = {**inputs.logprobs, **inputs.values}[name]
        assert found.dtype is torch.float64
        assert np.array_equal(found.numpy(), draft.scores[name][draft.acts].astype(np.float64))


def test_a_kl_in_the_advantages_changes_each_by_minus_beta_times_the_distance_and_nothing_else():
    groups = [
        *two_groups(1.0, 0.0),
        group(*(episode(chat(("task", 1), ("policy", 2)), group=2, slot=s) for s in (0, 1))),
    ]
    draft = scored(drafted(groups), "proximal", "reference")
    plain = replace(rloo(), before_credit=frozenset())
    shaped = replace(plain, credit=partial(kl_in_reward, credit=plain.credit, coefficient=BETA, place="advantages"))
    before, after = (give_credit(draft, one, rules=ON_POLICY) for one in (plain, shaped))
    distance = draft.scores["proximal"].astype(np.float64) - draft.scores["reference"]
    acts = draft.acts
    assert np.array_equal(after.advantages[acts], before.advantages[acts] + -BETA * distance[acts])
    assert not after.advantages[~acts].any()
    assert np.array_equal(before.action_mask, after.action_mask)


@pytest.mark.case("F54")
def test_values_of_observations_enter_no_advantage_and_take_no_step():
    given, expect = case("F54").input, case("F54").expect
    one = episode(chat(("task", 1), ("policy", 2), ("tool", 2), ("policy", 2)), outcome=given["rewards"][-1])
    objective = replace(
        rloo(), credit=partial(generalized_advantage, policy_lambda=given["lambda"], value_lambda=given["lambda"])
    )
    draft = drafted([group(one)])
    assert draft.acts[1:].tolist() == [bool(is_action) for is_action in given["mask"]]
    draft = with_score(draft, "predicted", np.asarray([np.nan, *given["values"]], np.float32))
    draft = replace(draft, facts=replace(draft.facts, bootstrap=np.zeros(1)))
    batch = give_credit(draft, objective, rules=ON_POLICY)
    assert batch.advantages[1:].tolist() == pytest.approx(expect["advantages"])
    assert batch.value_targets is not None
    assert batch.value_targets[batch.acts].tolist() == pytest.approx(expect["returns_at_model_tokens"])


def test_a_level_group_is_trained_by_the_entropies_of_its_tokens():
    draft = scored(drafted(two_groups(1.0, 1.0)), "entropy")
    objective = replace(grpo(), credit=partial(learn_from_level_groups, credit=grpo().credit, alpha=0.5))
    batch = give_credit(draft, objective, rules=ON_POLICY)
    assert batch.untrained == {}
    assert np.array_equal(batch.advantages[draft.acts], 0.5 * draft.scores["entropy"][draft.acts].astype(np.float64))
    plain = give_credit(draft, grpo(), rules=ON_POLICY)
    assert set(plain.untrained.values()) == {"zero_contrast"} and not plain.advantages.any()


def test_a_token_baseline_reads_the_masses_of_its_own_tokens():
    draft = scored(drafted(two_groups(1.0, 0.0)), "proximal", "sum_squared_probabilities")
    # Of a distribution: the mass of its tokens is at least that of the sampled one.
    mass = np.maximum(draft.scores["sum_squared_probabilities"], np.exp(2 * draft.scores["proximal"]))
    draft = with_score(draft, "sum_squared_probabilities", mass)
    batch = give_credit(draft, replace(rloo(), credit=optimal_token_baseline), rules=ON_POLICY)
    rows = [slice(*batch.row_offsets[row : row + 2]) for row in range(2)]
    sums = []
    for row in rows:
        acts = draft.acts[row]
        sure = draft.scores["proximal"][row][acts].astype(np.float64)
        mass = draft.scores["sum_squared_probabilities"][row][acts].astype(np.float64)
        sums.append(np.cumsum(1 - 2 * np.exp(sure) + mass))
    # The rewards are 1 and 0; behind the end of the shorter row the longer one is alone and has its return.
    shared = len(sums[0])
    baseline = sums[0] / (sums[0] + sums[1][:shared] + 1e-8)
    assert batch.advantages[rows[0]][draft.acts[rows[0]]] == pytest.approx(1.0 - baseline)
    assert batch.advantages[rows[1]][draft.acts[rows[1]]] == pytest.approx([*-baseline, 0.0])


def test_a_credit_whose_stream_is_not_there_says_so():
    with pytest.raises(ObjectiveError, match="the credit reads `entropy` values, but the batch has"):
        give_credit(
            drafted(two_groups(1.0, 0.0)),
            replace(grpo(), credit=partial(learn_from_level_groups, credit=grpo().credit, alpha=0.5)),
            rules=ON_POLICY,
        )


def test_copies_of_a_shared_segment_are_credited_from_their_own_scores_and_take_the_mean():
    forest = Forest()
    forest.add("task", 2)
    shared = forest.add("policy", 2)
    forest.add("policy", 2, after=shared)
    forest.add("policy", 3, after=shared)
    groups = [group(episode(forest.segments, slot=0, outcome=1.0), episode(chat(("task", 2), ("policy", 2)), slot=1))]
    draft = scored(drafted(groups), "entropy")
    objective = replace(
        grpo(), credit=lambda inputs: replace(grpo().credit(inputs), advantages=inputs.values["entropy"], untrained={})
    )
    batch = give_credit(draft, objective, rules=ON_POLICY)
    first, second = (batch.row_offsets[row] + 2 for row in (0, 1))
    mean = (
        draft.scores["entropy"][first : first + 2].astype(np.float64) + draft.scores["entropy"][second : second + 2]
    ) / 2
    for start in (first, second):
        assert batch.advantages[start : start + 2] == pytest.approx(mean)
