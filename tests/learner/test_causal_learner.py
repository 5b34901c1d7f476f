import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.algorithms import (
    Objective,
    Regularizer,
    TokenMean,
    bypassing_proximal,
    grpo,
    kl_k3,
    rloo,
    supervised,
    with_regularizer,
)
from rollwright.batches import StepBatch, UpdatePlan, cut, plan_updates, receipts_of
from rollwright.learner.causal_learner import streams_of
from rollwright.learner.errors import LearnerError, NonFiniteError
from rollwright.learner.forward import Path
from rollwright.learner.logprobs import TokenScores
from rollwright.learner.models import Precision
from rollwright.learner.shares import shares_of
from tests.batches.episodes import Forest, episode, group
from tests.cases import case
from tests.learner.small import (
    batch_of,
    demonstration_batch,
    first_gradient,
    gradients_of,
    learner_of,
    lively_model,
    plain_scores,
    relative_gap,
    two_turn_groups,
)

WITH_KL = with_regularizer(
    grpo(),
    Regularizer(component="kl", coefficient=0.1, per_token=kl_k3, weights=TokenMean()),
    needs=frozenset({"reference"}),
)


def one_update(batch: StepBatch, objective: Objective, **settings):
    """The outcome and gradient of a fresh learner's only update."""
    learner = learner_of(**settings)
    if "reference" in objective.needs:
        learner.freeze_reference()
    (done,) = learner.train(batch, objective, first_update=1).updates
    return done.outcome, first_gradient(learner)


# ------------------------------------------------------------------------------------------------- scores


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_scores_are_those_of_plain_transformers_at_the_segments_temperature(temperature):
    batch = batch_of(two_turn_groups(temperature=temperature), grpo())
    logprobs, entropy = plain_scores(lively_model(), batch)
    scores = learner_of().score(batch)
    mask = batch.action_mask
    assert np.abs(scores.logprobs - logprobs)[mask].max() < 1e-5
    assert np.abs(scores.entropy - entropy)[mask].max() < 1e-5
    assert np.isnan(scores.logprobs[~mask]).all() and np.isnan(scores.entropy[~mask]).all()


def test_scoring_changes_nothing():
    learner = learner_of()
    before = {name: tensor.clone() for name, tensor in learner.weights().items()}
    learner.score(batch_of(two_turn_groups(), grpo()))
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.weights().items())
    assert learner.optimizer.num_applied == 0


def test_a_frozen_reference_is_scored_in_any_cut_and_stands_while_the_policy_moves():
    learner, batch = learner_of(token_budget=16), batch_of(two_turn_groups(), grpo())
    with pytest.raises(LearnerError, match="no reference to score under"):
        learner.score_reference(batch)
    learner.freeze_reference()
    own, before = learner.score(batch).logprobs, learner.score_reference(batch)
    assert np.array_equal(own, before.logprobs, equal_nan=True)
    learner.train(batch, grpo(), first_update=1)
    after = learner.score_reference(batch)
    assert np.array_equal(before.logprobs, after.logprobs, equal_nan=True)
    assert not np.array_equal(learner.score(batch).logprobs, after.logprobs, equal_nan=True)
    assert before.weight_bytes == sum({t.data_ptr(): t.nbytes for t in learner.weights().values()}.values())


@pytest.mark.case("F101")
def test_a_token_is_scored_by_the_state_before_it_and_the_first_has_none():
    given_case = case("F101")
    prompt, generated = given_case.input["prompt_ids"], given_case.input["generated"]
    table = {
        tuple(map(int, key.split("|")[1].split(","))): (int(key[0]), value)
        for key, value in given_case.input["logprob_table"].items()
    }
    forest = Forest()
    forest.add("task", prompt[:1])
    forest.add("policy", [*prompt[1:], *generated])
    batch = batch_of([group(episode(forest.segments))], rloo())
    # A model whose next-token distribution after each prefix is the table's.
    (plan,) = plan_updates(batch, rloo(), first_update=1, num_minibatches=1)
    (micro,) = cut(plan, token_budget=100)
    places = micro.action_mask.nonzero().squeeze(1)
    scores = torch.tensor([table[tuple(micro.token_ids[:place].tolist())][1] for place in places.tolist()])
    streams = streams_of(micro, rloo(), places, TokenScores(logprobs=scores, entropy=torch.zeros(3)))
    due = [s for s in given_case.expect["prompt_scores"] if s != "none"] + given_case.expect["generated_scores"]
    assert streams.logprobs["current"][1:].tolist() == pytest.approx(due)
    assert not bool(micro.action_mask[0])
    # And the learner's own scores stand at the same places as plain log_softmax of the state before.
    own, plain = learner_of().score(batch).logprobs, plain_scores(lively_model(), batch)[0]
    assert np.isnan(own[0]) and np.abs(own - plain)[1:].max() < 1e-5


# ------------------------------------------------------------------------------- the same update, however it is cut


@pytest.mark.parametrize("objective", [grpo(), WITH_KL, supervised()], ids=lambda o: f"{o.name}-{len(o.regularizers)}")
@pytest.mark.parametrize("rows_at_once", [1, 2])
def test_loss_and_gradient_do_not_depend_on_the_micro_batch_budget(objective, rows_at_once):
    batch = demonstration_batch(objective) if objective.name == "supervised" else batch_of(two_turn_groups(), objective)
    token_budget = rows_at_once * int(np.diff(batch.row_offsets).max())
    whole, gradient = one_update(batch, objective)
    pieces, summed = one_update(batch, objective, token_budget=token_budget)
    assert len(cut(bare_plan(batch), token_budget=token_budget)) > 1
    assert pieces.loss == pytest.approx(whole.loss, rel=1e-5, abs=1e-9)
    assert pieces.grad_norm == pytest.approx(whole.grad_norm, rel=1e-5)
    assert relative_gap(gradient, summed) < 1e-5


def test_loss_and_gradient_do_not_depend_on_the_order_of_the_groups():
    groups = two_turn_groups(4)
    one, gradient = one_update(batch_of(groups, grpo()), grpo())
    other, same = one_update(batch_of(groups[::-1], grpo()), grpo())
    assert other.loss == one.loss
    assert all(torch.equal(gradient[name], same[name]) for name in gradient)


def test_shuffled_rows_give_the_same_loss_and_gradient():
    batch = batch_of(two_turn_groups(4), grpo())
    (plan,) = plan_updates(batch, grpo(), first_update=1, num_minibatches=1)
    learner, other = learner_of(), learner_of()
    one = learner._update(plan, grpo())
    shuffled = replace(plan, rows=tuple(reversed(plan.rows)))
    two = other._update(shuffled, grpo())
    assert two.loss == pytest.approx(one.loss, rel=1e-5, abs=1e-9)
    assert relative_gap(first_gradient(learner), first_gradient(other)) < 1e-5


def test_padding_gives_the_same_loss_and_gradient():
    batch = batch_of(two_turn_groups(4), grpo())
    packed, padded = learner_of(), learner_of()
    padded.model.set_attn_implementation("sdpa")
    padded.scorer = replace(padded.scorer, path=Path.PADDED)
    one = packed.train(batch, grpo(), first_update=1).updates[0].outcome
    two = padded.train(batch, grpo(), first_update=1).updates[0].outcome
    mask = batch.action_mask
    assert one.proximal is not None and two.proximal is not None
    assert np.abs(one.proximal - two.proximal)[mask].max() < 1e-5
    assert two.grad_norm == pytest.approx(one.grad_norm, rel=1e-5)
    assert relative_gap(first_gradient(packed), first_gradient(padded)) < 1e-5


def test_the_gradient_is_that_of_plain_transformers():
    objective = rloo()
    batch = batch_of(two_turn_groups(), objective)
    (plan,) = plan_updates(batch, objective, first_update=1, num_minibatches=1)
    model = lively_model()
    weights = torch.tensor(plan.token_weights["policy_gradient"] * batch.advantages)
    loss = torch.zeros((), dtype=torch.float64)
    for start, end in zip(batch.row_offsets, batch.row_offsets[1:], strict=False):
        ids = torch.tensor(batch.token_ids[start:end].astype(np.int64))
        table = model(ids[None]).logits[0, :-1].log_softmax(1)
        loss = loss - (weights[start + 1 : end] * table.gather(1, ids[1:, None])[:, 0]).sum()
    loss.backward()
    expected = gradients_of(model)
    outcome, gradient = one_update(batch, objective)
    assert outcome.loss == pytest.approx(loss.item(), rel=1e-5)
    assert relative_gap(gradient, expected) < 1e-5


def test_the_gradient_is_the_slope_of_the_reported_loss():
    batch = batch_of(two_turn_groups(), rloo())
    _, gradient = one_update(batch, rloo())
    name = "model.layers.0.mlp.down_proj.weight"
    direction = gradient[name] / gradient[name].norm()
    losses = []
    for shift in (-1e-2, 1e-2):
        model = lively_model()
        with torch.no_grad():
            model.get_parameter(name).add_(direction, alpha=shift)
        losses.append(learner_of(model).train(batch, rloo(), first_update=1).updates[0].outcome.loss)
    assert (losses[1] - losses[0]) / 2e-2 == pytest.approx(gradient[name].norm().item(), rel=1e-2)


def test_rows_without_contrast_are_scored_but_not_differentiated_and_nothing_else_changes():
    groups = two_turn_groups(3, rewards=(1, 0, 1))
    quiet = [replace(m, outcome=1.0) for m in groups[1].members]
    groups[1] = replace(groups[1], members=tuple(quiet))
    batch = batch_of(groups, grpo())
    (plan,) = plan_updates(batch, grpo(), first_update=1, num_minibatches=1)
    assert shares_of(plan, grpo()).quiet.rows == (3, 4, 5)
    assert shares_of(plan, WITH_KL).quiet.rows == ()

    skipping, gradient = one_update(batch, grpo())
    differentiated, full = one_update(replace(batch, untrained={}), grpo())
    assert relative_gap(gradient, full) < 1e-5
    assert skipping.loss == pytest.approx(differentiated.loss, rel=1e-5, abs=1e-9)
    assert skipping.proximal is not None
    assert np.isfinite(skipping.proximal[batch.action_mask]).all()
    assert (skipping.flags == differentiated.flags).all() and (skipping.keep == differentiated.keep).all()


# --------------------------------------------------------------------------------------- what is under a mask


@pytest.mark.case("F28")
@given(poison=st.sampled_from([math.nan, math.inf, -math.inf, 1e30, 1.0, 0.0]))
@settings(max_examples=6)
def test_what_stands_under_a_mask_changes_nothing_to_the_last_bit(poison):
    objective = bypassing_proximal(grpo())
    batch = batch_of(two_turn_groups(), objective)
    mask = batch.action_mask
    clean, gradient = one_update(batch, objective)

    def poisoned(stream: np.ndarray) -> np.ndarray:
        return np.where(mask, stream, poison).astype(stream.dtype)

    dirty = replace(batch, behavior=poisoned(batch.behavior), advantages=poisoned(batch.advantages))
    outcome, same = one_update(dirty, objective)
    assert outcome.loss == clean.loss and outcome.grad_norm == clean.grad_norm
    assert all(torch.equal(gradient[name], same[name]) for name in gradient)


# --------------------------------------------------------------------------------------- frozen streams


def test_with_one_update_proximal_is_the_detached_current_of_the_same_pass():
    batch = batch_of(two_turn_groups(), grpo())
    outcome, _ = one_update(batch, grpo())
    assert outcome.current is None and outcome.proximal is not None
    assert np.isfinite(outcome.proximal[batch.action_mask]).all()
    assert np.isnan(outcome.proximal[~batch.action_mask]).all()
    # With a ratio of exactly 1 the loss of a token is minus its weight and advantage.
    (plan,) = plan_updates(batch, grpo(), first_update=1, num_minibatches=1)
    due = -(plan.token_weights["policy_gradient"] * batch.advantages.astype(np.float32))
    assert (outcome.token_losses["policy_gradient"] == due).all()


@pytest.mark.case("F132")
def test_proximal_and_behavior_stay_frozen_over_minibatches_and_epochs():
    batch = batch_of(two_turn_groups(4), grpo())
    behavior = batch.behavior.copy()
    learner = learner_of(num_minibatches=2, num_epochs=2)
    before = learner.score(batch).logprobs
    done = learner.train(batch, grpo(), first_update=5).updates
    assert [u.outcome.update for u in done] == [5, 6, 7, 8]
    assert (batch.behavior == behavior)[batch.action_mask].all()
    for plan, outcome in done:
        mask = rows_mask(plan)
        assert outcome.proximal is not None and outcome.current is not None
        assert np.abs(outcome.proximal - before)[mask].max() < 1e-5
        assert np.isnan(outcome.current[~mask]).all()
    first, again = done[0].outcome, done[2].outcome
    mask = rows_mask(done[0].plan)
    assert (first.current == first.proximal)[mask].all(), "the first update has a ratio of exactly 1"
    assert (again.proximal == first.proximal)[mask].all()
    assert again.current is not None and again.proximal is not None
    ratio = np.exp(again.current - again.proximal)[mask]
    assert np.abs(ratio - 1).max() > 1e-2, "the second epoch sees its own weights against frozen scores"


def test_bypass_mode_has_no_proximal_scores():
    objective = bypassing_proximal(grpo())
    batch = batch_of(two_turn_groups(), objective)
    outcome, _ = one_update(batch, objective)
    assert outcome.proximal is None and outcome.current is not None
    assert np.isfinite(outcome.current[batch.action_mask]).all()


@pytest.mark.row("S248")
def test_actor_reference_and_old_policy_share_one_layout_and_switching_roles_changes_no_score():
    batch = batch_of(two_turn_groups(), WITH_KL)
    learner = learner_of(num_epochs=2)
    learner.freeze_reference()
    before = learner.score(batch).logprobs
    first, second = (u.outcome for u in learner.train(batch, WITH_KL, first_update=1).updates)
    mask = batch.action_mask
    for outcome in (first, second):
        assert (outcome.reference == outcome.proximal)[mask].all()
        assert (outcome.proximal == before)[mask].all()
    assert (first.token_losses["kl"] == 0).all()
    assert first.current is not None and (first.current == first.reference)[mask].all()
    assert second.token_losses["kl"].sum() > 0
    actor = replace(learner, scorer=learner.reference)
    assert (actor.score(batch).logprobs == before)[mask].all()


def test_an_objective_that_needs_what_is_not_there_is_refused():
    batch = batch_of(two_turn_groups(), WITH_KL)
    with pytest.raises(LearnerError, match="freeze_reference"):
        learner_of().train(batch, WITH_KL, first_update=1)
    for need in ("values", "teacher"):
        with pytest.raises(LearnerError, match=need):
            learner_of().train(batch, replace(grpo(), needs=frozenset({need})), first_update=1)


# --------------------------------------------------------------------------------------- skipped updates


def test_nothing_to_train_is_a_counted_zero():
    forest = Forest()
    forest.add("task", [1, 2, 3])
    forest.add("policy", [])
    objective = grpo()
    batch = batch_of([group(episode(forest.segments))], objective)
    learner = learner_of()
    before = {name: tensor.clone() for name, tensor in learner.weights().items()}
    (done,) = learner.train(batch, objective, first_update=1).updates
    assert (done.outcome.loss, done.outcome.grad_norm, done.outcome.is_applied) == (0.0, 0.0, False)
    assert done.outcome.skipped_reason == "no trainable token"
    assert learner.optimizer.num_skipped == 1
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.weights().items())
    assert receipts_of(done.plan, done.outcome, objective)[0].num_kept == 0


@pytest.mark.case("F128")
def test_an_update_that_is_not_finite_changes_nothing_is_named_and_five_in_a_row_stop_the_run(tmp_path):
    learner = learner_of()
    batch = batch_of(two_turn_groups(), grpo())
    learner.train(batch, grpo(), first_update=1)
    learner.save(tmp_path / "good")
    weights = {name: tensor.clone() for name, tensor in learner.weights().items()}
    moments = {name: tensor.clone() for name, tensor in learner.optimizer.state_tensors().items()}

    poisoned = replace(
        grpo(),
        surrogate=lambda ratio, streams: replace(
            grpo().surrogate(ratio, streams), per_token=ratio * torch.tensor(math.nan)
        ),
    )
    for update in range(2, 6):
        (done,) = learner.train(batch, poisoned, first_update=update).updates
        assert not done.outcome.is_applied
        assert done.outcome.skipped_reason is not None and "t000000-00-0" in done.outcome.skipped_reason
    with pytest.raises(NonFiniteError, match="5 updates in a row"):
        learner.train(batch, poisoned, first_update=6)
    assert all(torch.equal(weights[name], tensor) for name, tensor in learner.weights().items())
    assert all(torch.equal(moments[name], t) for name, t in learner.optimizer.state_tensors().items())
    assert (learner.optimizer.num_applied, learner.optimizer.num_skipped) == (1, 5)

    learner.restore(tmp_path / "good")
    (done,) = learner.train(batch, grpo(), first_update=2).updates
    assert done.outcome.is_applied and learner.counters.num_bad_in_a_row == 0


def test_weights_that_are_not_finite_are_seen_before_they_spread():
    model = lively_model()
    with torch.no_grad():
        model.get_parameter("model.layers.1.mlp.up_proj.weight")[0, 0] = math.nan
    batch = batch_of(two_turn_groups(), rloo())
    (done,) = learner_of_unprobed(model).train(batch, rloo(), first_update=1).updates
    reason = done.outcome.skipped_reason
    assert not done.outcome.is_applied and reason is not None and reason.startswith("not finite")


def learner_of_unprobed(model):
    learner = learner_of()
    with torch.no_grad():
        for name, parameter in learner.model.named_parameters():
            parameter.copy_(model.get_parameter(name))
    return learner


# --------------------------------------------------------------------------------------- training


def test_two_learners_give_the_same_bits():
    batch = batch_of(two_turn_groups(4), grpo())
    learners = [learner_of(num_minibatches=2, token_budget=80) for _ in range(2)]
    for first in (1, 3, 5):
        one, two = (learner.train(batch, grpo(), first_update=first).updates for learner in learners)
        assert [u.outcome.loss for u in one] == [u.outcome.loss for u in two]
    left, right = (learner.weights() for learner in learners)
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_the_process_keeps_its_own_determinism_setting():
    assert not torch.are_deterministic_algorithms_enabled()
    learner_of().score(batch_of(two_turn_groups(), grpo()))
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory  # pyright: ignore[reportAttributeAccessIssue] - not in its stubs


@pytest.mark.parametrize("precision", list(Precision))
def test_demonstrations_are_learned(precision):
    objective = supervised()
    batch = demonstration_batch(objective)
    learner = learner_of(precision=precision)
    losses = [learner.train(batch, objective, first_update=n + 1).updates[0].outcome.loss for n in range(25)]
    assert losses[-1] < 0.2 * losses[0]
    assert {tensor.dtype for tensor in learner.weights().values()} == {torch.float32}


def test_bf16_products_change_scores_by_their_own_rounding_only():
    batch = batch_of(two_turn_groups(), grpo())
    full, half = (learner_of(precision=precision).score(batch).logprobs for precision in Precision)
    gap = np.abs(full - half)[batch.action_mask]
    assert 0 < gap.max() < 0.5


def test_reward_moves_probability_towards_what_earned_it():
    batch = batch_of(two_turn_groups(), grpo())
    learner = learner_of(learning_rate=1e-3)
    before = learner.score(batch).logprobs
    learner.train(batch, grpo(), first_update=1)
    moved = learner.score(batch).logprobs - before
    mask = batch.action_mask
    assert (moved * batch.advantages)[mask].sum() > 0


def test_a_truncated_distribution_is_refused_until_its_support_can_be_replayed():
    batch = batch_of(two_turn_groups(), grpo())
    routed = np.zeros((len(batch.token_ids), 1, 1), np.int32)
    with pytest.raises(LearnerError, match="top_p=1"):
        learner_of().train(replace(batch, routed_experts=routed), grpo(), first_update=1)


def bare_plan(batch: StepBatch) -> UpdatePlan:
    rows = tuple(range(len(batch.rows)))
    return UpdatePlan(batch=batch, update=0, rows=rows, token_weights={}, weight_sums={}, denominators={})


def rows_mask(plan: UpdatePlan) -> np.ndarray:
    chosen = np.isin(np.arange(len(plan.batch.rows)), plan.rows)
    return plan.batch.action_mask & np.repeat(chosen, np.diff(plan.batch.row_offsets))
