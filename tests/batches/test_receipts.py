from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.denominators.plain import SequenceSum, TokenMean
from rollwright.algorithms.objective import Regularizer
from rollwright.algorithms.presets import rloo, score_function, supervised, with_regularizer
from rollwright.batches import (
    BatchRules,
    eligible_rows,
    plan_step,
    plan_updates,
    receipts_of,
    update_metrics,
)
from rollwright.record import Flag
from rollwright.record.codec import decode_receipts, encode_receipts
from rollwright.record.run_length import run_length
from tests.batches.audit import connect, faults
from tests.batches.episodes import (
    DEMONSTRATION,
    NOW,
    ON_POLICY,
    POLICY,
    Forest,
    chat,
    episode,
    group,
    numbers,
    outcome_of,
    trained,
)
from tests.batches.strategies import denominators, steps

KL = Regularizer(component="kl", coefficient=0.5, per_token=lambda s: s.advantages, weights=SequenceSum())


def centered(weights=None):
    return score_function("centered", credit=center_within_group, weights=weights or TokenMean())


def made(groups, objective, *, step=1, eligible=POLICY, rules=ON_POLICY, num_minibatches=1, **changes):
    """Plans with their receipts and metrics at a learner that changed nothing."""
    batch = plan_step(groups, step=step, objective=objective, eligible=eligible, rules=rules)
    plans = plan_updates(batch, objective, first_update=1, num_minibatches=num_minibatches)
    outcomes = [outcome_of(plan, objective, **changes) for plan in plans]
    receipts = [r for p, o in zip(plans, outcomes, strict=True) for r in receipts_of(p, o, objective)]
    metrics = [m for p, o in zip(plans, outcomes, strict=True) for m in update_metrics(p, o, objective, now=NOW)]
    return plans, receipts, metrics


@settings(max_examples=25)
@given(steps(), denominators, st.integers(1, 2))
def test_the_audit_finds_nothing(groups, rule, wanted):
    objective = with_regularizer(centered(rule), KL, needs=frozenset())
    num = min(wanted, sum(len(g.members) for g in groups))
    # A trained slot without any eligible segment has nothing to show a receipt for.
    groups = [g for g in groups if all(any(s.policy == "policy" for s in m.trajectory.segments) for m in g.members)]
    if not groups or sum(len(g.members) for g in groups) < num:
        return
    _, receipts, metrics = made(groups, objective, num_minibatches=num)
    members = [m for g in groups for m in g.members]
    db = connect(members, receipts, metrics, eligible_rows("policy", objective, POLICY))
    assert faults(db) == []


@pytest.mark.parametrize("fault", ["missing", "doubled", "heavier"])
def test_the_audit_finds_a_planted_fault(fault):
    groups = [group(*(episode(chat(("task", 1), ("policy", 3)), slot=s, outcome=float(s)) for s in (0, 1)))]
    _, receipts, metrics = made(groups, centered())
    match fault:
        case "missing":
            receipts = receipts[1:]
        case "doubled":
            receipts = [*receipts, receipts[0]]
        case _:
            heavier = run_length(numbers(receipts[0].token_weight) * 1.001)
            receipts[0] = replace(receipts[0], token_weight=heavier)
    members = [m for g in groups for m in g.members]
    assert faults(connect(members, receipts, metrics, eligible_rows("policy", centered(), POLICY)))


@given(steps(), denominators)
def test_receipts_expand_to_what_the_plan_and_the_segments_hold(groups, rule):
    objective = with_regularizer(centered(rule), KL, needs=frozenset())
    (plan,), receipts, _ = made(groups, objective)
    batch = plan.batch
    found = {(r.component, r.trajectory_id, r.segment): r for r in receipts}
    assert len(found) == len(receipts)
    for row_index, row in enumerate(batch.rows):
        member = batch.members[row.member]
        for number in row.owns:
            segment = member.trajectory.segments[number]
            start = int(batch.row_offsets[row_index]) + segment.start
            here = slice(start, start + segment.num_tokens)
            main = found["policy_gradient", member.trajectory_id, number]
            assert main.row_index == row_index and main.lag == 0
            assert np.array_equal(numbers(main.token_weight), plan.token_weights["policy_gradient"][here])
            assert np.array_equal(numbers(main.advantage), batch.advantages[here].astype(np.float32))
            assert main.num_eligible == batch.acts[here].sum()
            assert main.num_kept == batch.action_mask[here].sum()
            kl = found["kl", member.trajectory_id, number]
            assert np.array_equal(numbers(kl.token_weight), plan.token_weights["kl"][here])
            assert kl.proximal_logprobs is None and kl.advantage is None and kl.influence == 0
            if row.withheld is None:
                kept = batch.action_mask[here]
                assert np.array_equal(numbers(main.proximal_logprobs)[kept], numbers(segment.behavior_logprobs)[kept])
            else:
                assert main.proximal_logprobs is None and main.untrained_reason == row.withheld
    assert 2 * sum(len(row.owns) for row in batch.rows) == len(receipts)


@given(steps(), denominators)
def test_influence_and_loss_are_sums_over_the_tokens_of_a_receipt(groups, rule):
    objective = centered(rule)
    (plan,), receipts, _ = made(groups, objective)
    moved = np.abs(plan.token_weights["policy_gradient"] * plan.batch.advantages)[trained(plan)].sum()
    assert sum(r.influence for r in receipts) == pytest.approx(moved, rel=1e-12, abs=1e-15)
    loss = -(plan.token_weights["policy_gradient"] * plan.batch.advantages).sum()
    assert sum(r.loss for r in receipts) == pytest.approx(loss, rel=1e-12, abs=1e-15)


def test_receipts_survive_the_codec():
    groups = [group(*(episode(chat(("task", 1), ("policy", 3)), slot=s, outcome=float(s)) for s in (0, 1)))]
    _, receipts, _ = made(groups, centered())
    for one, other in zip(receipts, decode_receipts(encode_receipts(receipts)), strict=True):
        assert numbers(one.token_weight).tolist() == numbers(other.token_weight).tolist()
        assert numbers(one.proximal_logprobs).tolist() == numbers(other.proximal_logprobs).tolist()
        assert (one.loss, one.influence, one.lag) == (other.loss, other.influence, other.lag)


def test_reasons_and_flags_of_what_was_not_trained():
    members = [
        episode(chat(("task", 1), ("policy", 2), version=3), slot=0, outcome=1.0),
        episode(chat(("task", 1), ("policy", 2), version=1), slot=1, outcome=0.0),
        episode(chat(("task", 1), ("policy", 2), version=3), slot=2, outcome="grader_error"),
    ]
    level = [episode(chat(("task", 1), ("policy", 2), version=3), group=1, slot=s, outcome=1.0) for s in (0, 1)]
    _, receipts, _ = made([group(*members), group(*level)], centered(), step=4, rules=BatchRules(max_lag=1))
    assert [r.untrained_reason for r in receipts] == [None, "stale", "unscored", "zero_contrast", "zero_contrast"]
    assert [r.lag for r in receipts] == [0, 2, 0, 0, 0]
    flags = [sorted(set(numbers(r.flags).tolist())) for r in receipts]
    assert flags == [[0], [Flag.STALE], [0], [Flag.ZERO_ADVANTAGE], [Flag.ZERO_ADVANTAGE]]
    assert [r.num_kept for r in receipts] == [2, 0, 0, 2, 2]
    assert [r.num_eligible for r in receipts] == [2] * 5
    # The group without contrast stays in the denominator: 2 + 2 + 2 tokens.
    assert numbers(receipts[0].token_weight).tolist() == pytest.approx([1 / 6, 1 / 6])
    assert numbers(receipts[1].token_weight).tolist() == [0, 0]


def test_a_segment_whose_tokens_were_all_cut_is_rejected():
    groups = [group(*(episode(chat(("task", 1), ("policy", 2)), slot=s, outcome=float(s)) for s in (0, 1)))]
    keep = np.asarray([False, False, False, False, True, False])
    correction = np.asarray([np.nan, 1, 1, np.nan, 0.5, 1], np.float32)
    _, receipts, _ = made(groups, centered(), keep=keep, correction=correction)
    assert [(r.num_kept, r.untrained_reason) for r in receipts] == [(0, "rejected"), (1, None)]
    assert numbers(receipts[1].correction).tolist() == [0.5, 1]
    # |weight 1/4 · correction 1/2 · advantage 1/2|; tokens that were cut stay in the denominator.
    assert [r.influence for r in receipts] == [0, pytest.approx(1 / 16)]


def test_a_skipped_update_moves_nothing():
    groups = [group(*(episode(chat(("task", 1), ("policy", 2)), slot=s, outcome=float(s)) for s in (0, 1)))]
    _, receipts, metrics = made(groups, centered(), is_applied=False, skipped_reason="not finite")
    assert [(r.num_kept, r.influence, r.untrained_reason) for r in receipts] == [(0, 0, "rejected")] * 2
    members = [m for g in groups for m in g.members]
    assert faults(connect(members, receipts, metrics, eligible_rows("policy", centered(), POLICY))) == []


def test_an_empty_turn_has_a_receipt():
    forest = Forest()
    forest.add("task", 2)
    forest.add("policy", 0)
    _, receipts, metrics = made([group(episode(forest.segments))], rloo())
    (receipt,) = receipts
    assert (receipt.num_eligible, receipt.num_kept, receipt.loss) == (0, 0, 0)
    assert len(numbers(receipt.token_weight)) == 0 and len(numbers(receipt.proximal_logprobs)) == 0
    db = connect([episode(forest.segments)], receipts, metrics, eligible_rows("policy", rloo(), POLICY))
    assert faults(db) == []


def test_demonstrations_have_receipts_of_their_component():
    demo = episode(chat(("task", 2), ("demonstration", 3)), purpose="demonstration", outcome="demonstration")
    _, receipts, metrics = made([group(demo)], supervised(), eligible=DEMONSTRATION)
    (receipt,) = receipts
    assert (receipt.component, receipt.lag, receipt.untrained_reason) == ("nll", 0, None)
    assert numbers(receipt.token_weight).tolist() == pytest.approx([1 / 3] * 3)
    assert receipt.influence == pytest.approx(1.0)
    assert faults(connect([demo], receipts, metrics, eligible_rows("policy", supervised(), DEMONSTRATION))) == []


def test_current_log_probabilities_stand_beside_proximal_after_the_first_update():
    groups = [group(*(episode(chat(("task", 1), ("policy", 2)), slot=s, outcome=float(s)) for s in (0, 1)))]
    current = np.asarray([np.nan, -0.5, -0.2, np.nan, -0.1, -0.6], np.float32)
    _, receipts, _ = made(groups, centered(), current=current)
    assert numbers(receipts[0].current_logprobs).tolist() == pytest.approx([-0.5, -0.2])
    assert receipts[0].max_log_ratio == pytest.approx(0.4)  # |-0.5 - -0.1| against behavior -0.1, -0.2
    assert receipts[0].entropy == pytest.approx(0.5)
