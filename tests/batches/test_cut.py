from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.algorithms.presets import rloo, score_function
from rollwright.batches import BatchRules, cut, plan_step, plan_updates
from rollwright.record import Sampling
from tests.batches.episodes import ON_POLICY, POLICY, Forest, chat, episode, group
from tests.batches.strategies import denominators, steps
from tests.cases import case, method_fixture


def planned(groups, weights):
    objective = score_function("centered", credit=center_within_group, weights=weights)
    batch = plan_step(groups, step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    return plan_updates(batch, objective, first_update=1, num_minibatches=1)[0]


def gradient(micros, table: torch.Tensor) -> torch.Tensor:
    """Gradient of a toy loss that sees the whole prefix of each token, summed over micro-batches in order."""
    table = table.clone().requires_grad_()
    for micro in micros:
        scores = table[micro.token_ids % len(table)]
        loss = table.new_zeros(())
        for a, b in zip(micro.row_offsets[:-1].tolist(), micro.row_offsets[1:].tolist(), strict=True):
            prefix = torch.tanh(scores[a:b].cumsum(0) + 0.1 * micro.position_ids[a:b].unsqueeze(1)).sum(1)
            here = micro.token_weights["policy_gradient"][a:b] * micro.advantages[a:b].double() * prefix
            loss = loss - torch.where(micro.action_mask[a:b], here, 0.0).sum()
        loss.backward()
    return torch.zeros_like(table) if table.grad is None else table.grad


def num_distinct(micro) -> int:
    """Tokens that a model computes where it computes every beginning once."""
    rows = [micro.token_ids[a:b].tolist() for a, b in pairwise(micro.row_offsets.tolist())]
    return len({tuple(row[: end + 1]) for row in rows for end in range(len(row))})


@given(steps(), denominators)
def test_the_gradient_does_not_depend_on_the_budget(groups, rule):
    plan = planned(groups, rule)
    table = torch.randn(13, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    whole = gradient(cut(plan, token_budget=10**6), table)
    for budget in (1, 2, 9):
        assert torch.allclose(gradient(cut(plan, token_budget=budget), table), whole, rtol=1e-12, atol=1e-14)


@given(steps(), denominators, st.integers(1, 30))
def test_pieces_hold_every_trained_row_once_and_copy_the_stream(groups, rule, budget):
    plan = planned(groups, rule)
    batch = plan.batch
    micros = cut(plan, token_budget=budget)
    due = [r for r in plan.rows if batch.action_mask[batch.row_offsets[r] : batch.row_offsets[r + 1]].any()]
    assert sorted(r for m in micros for r in m.rows) == due
    for micro in micros:
        index = micro.token_index.numpy()
        assert num_distinct(micro) <= budget or len(micro.rows) == 1
        assert np.array_equal(micro.token_ids.numpy(), batch.token_ids[index])
        assert np.array_equal(micro.action_mask.numpy(), batch.action_mask[index])
        assert np.array_equal(
            micro.token_weights["policy_gradient"].numpy(), plan.token_weights["policy_gradient"][index]
        )
        assert micro.row_offsets[0] == 0 and micro.row_offsets[-1] == len(index)
        assert not micro.action_mask[micro.row_offsets[:-1]].any()
        assert (micro.position_ids[micro.row_offsets[:-1]] == 0).all()
        assert not micro.advantages[~micro.action_mask].any()


def loss_of_pieces(micros, losses) -> list[float]:
    """What each piece adds: weight times the loss that its row's tokens have."""
    return [
        float(sum((m.token_weights["policy_gradient"][m.token_index == t] * x).sum() for t, x in losses.items()))
        for m in micros
    ]


def accumulated(per_token: list[list[float]]) -> tuple[list[float], list[list[float]]]:
    """Rows of one token-mean update, each a piece of its own: what the pieces add, and the weights in them."""
    members = [
        episode(chat(("task", 1), ("policy", len(row))), slot=s, outcome=float(s)) for s, row in enumerate(per_token)
    ]
    plan = planned([group(*members)], TokenMean())
    starts = plan.batch.row_offsets[:-1].tolist()
    losses = {start + 1 + i: x for start, row in zip(starts, per_token, strict=True) for i, x in enumerate(row)}
    micros = sorted(cut(plan, token_budget=1), key=lambda m: m.rows)
    assert len(micros) == len(per_token)
    weights = [m.token_weights["policy_gradient"][m.action_mask].tolist() for m in micros]
    return loss_of_pieces(micros, losses), weights


@pytest.mark.case("F01")
def test_pieces_add_up_to_the_mean_over_all_tokens_of_the_update():
    given_case = case("F01")
    pieces, weights = accumulated(given_case.input["micro_batches_per_token_loss"])
    assert weights == given_case.expect["grad_weight_per_token"]
    assert sum(pieces) == given_case.expect["loss"]


@pytest.mark.case("F02")
def test_the_number_of_pieces_divides_nothing():
    given_case = case("F02")
    sums, tokens = given_case.input["micro_batch_loss_sums"], given_case.input["micro_batch_tokens"]
    pieces, _ = accumulated([[total / n] * n for total, n in zip(sums, tokens, strict=True)])
    assert sum(pieces) == pytest.approx(given_case.expect["loss"])


def test_pieces_of_two_rows_are_no_mean_of_means():
    fixture = method_fixture("M79.a")
    losses, (first, _) = fixture.input["loss_per_token"], fixture.input["micro"]
    pieces, _ = accumulated([losses[:first], losses[first:]])
    assert sum(pieces) == pytest.approx(fixture.expect["global_token_mean"])


@pytest.mark.case("F25")
def test_packed_rows_do_not_predict_each_others_first_token():
    given_case = case("F25")
    ids, docs = given_case.input["packed_ids"], given_case.input["doc_ids"]
    members = []
    for slot in (0, 1):
        mine = [i for i, d in zip(ids, docs, strict=True) if d == slot]
        forest = Forest()
        forest.add("task", mine[:1])
        forest.add("policy", mine[1:])
        members.append(episode(forest.segments, slot=slot, outcome=float(slot)))
    batch = plan_step([group(*members)], step=1, objective=rloo(), eligible=POLICY, rules=ON_POLICY)
    (micro,) = cut(plan_updates(batch, rloo(), first_update=1, num_minibatches=1)[0], token_budget=100)
    assert micro.token_ids.tolist() == ids
    assert micro.position_ids.tolist() == given_case.expect["position_ids"]
    assert micro.action_mask.int().tolist() == given_case.input["token_mask_by_token"]
    pairs = [[t - 1, t] for t in micro.action_mask.nonzero().flatten().tolist()]
    assert pairs == given_case.expect["prediction_pairs_trained"]


def test_withheld_rows_are_not_computed():
    members = [
        episode(chat(("task", 1), ("policy", 2)), slot=s, outcome=o) for s, o in enumerate([1.0, "timeout", 0.0])
    ]
    batch = plan_step([group(*members)], step=1, objective=rloo(), eligible=POLICY, rules=ON_POLICY)
    (micro,) = cut(plan_updates(batch, rloo(), first_update=1, num_minibatches=1)[0], token_budget=100)
    assert micro.rows == (0, 2)


def test_nothing_trainable_gives_no_pieces():
    batch = plan_step([group(episode(chat(("task", 1))))], step=1, objective=rloo(), eligible=POLICY, rules=ON_POLICY)
    assert cut(plan_updates(batch, rloo(), first_update=1, num_minibatches=1)[0], token_budget=10) == ()


def test_support_and_routed_experts_travel_with_their_tokens():
    def path(version_ids, counts, ids, experts):
        forest = Forest()
        forest.add("task", 1)
        forest.add(
            "policy", version_ids, sampling=Sampling(top_k=2),
            tensors={
                "support_counts": np.asarray(counts, np.int32), "support_ids": np.asarray(ids, np.int32),
                "routed_experts": np.asarray(experts, np.int16).reshape(len(version_ids), 1, 2),
            },
        )  # fmt: skip
        return forest.segments

    members = [
        episode(path([5], [2], [5, 6], [[0, 1]]), slot=0, outcome=1.0),
        episode(path([7, 8], [2, 1], [7, 9, 8], [[2, 3], [4, 5]]), slot=1, outcome=0.0),
    ]
    rules = BatchRules(max_lag=0, support="replayed")
    batch = plan_step([group(*members)], step=1, objective=rloo(), eligible=POLICY, rules=rules)
    (micro,) = cut(plan_updates(batch, rloo(), first_update=1, num_minibatches=1)[0], token_budget=100)
    assert micro.rows == (1, 0) and micro.support is not None and micro.routed_experts is not None
    offsets, ids = micro.support.offsets.tolist(), micro.support.token_ids.tolist()
    assert [ids[a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)] == [[], [7, 9], [8], [], [5, 6]]
    assert micro.routed_experts[:, 0].tolist() == [[-1, -1], [2, 3], [4, 5], [-1, -1], [0, 1]]
