"""What the learner makes of a laid-out batch before its credit, under the weights as they stand."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from rollwright.algorithms import Objective, bypassing_proximal, grpo, rloo
from rollwright.algorithms.credit.kl_in_reward import kl_in_reward
from rollwright.algorithms.credit.level_groups import learn_from_level_groups
from rollwright.algorithms.credit.optimal_token import optimal_token_baseline
from rollwright.algorithms.streams import BEFORE_CREDIT
from rollwright.algorithms.trial import streams_before_credit
from rollwright.batches import give_credit, lay_out, receipts_of
from rollwright.learner.errors import LearnerError
from tests.batches.episodes import ON_POLICY, POLICY, Forest, episode, group
from tests.learner.small import (
    VOCAB,
    batch_of,
    first_gradient,
    learner_of,
    lively_model,
    plain_scores,
    relative_gap,
    two_turn_groups,
)


def crediting(objective: Objective, credit) -> Objective:
    return replace(objective, credit=credit, before_credit=streams_before_credit(credit))


LEVEL = crediting(grpo(), partial(learn_from_level_groups, credit=grpo().credit, alpha=0.5))
TOKENS = crediting(rloo(), optimal_token_baseline)
SHAPED = crediting(rloo(), partial(kl_in_reward, credit=rloo().credit, coefficient=0.1, place="advantages"))
EVERYTHING = replace(grpo(), before_credit=BEFORE_CREDIT)


def drafted(groups):
    return lay_out(groups, step=1, eligible=POLICY, rules=ON_POLICY)


def learn(learner, groups, objective):
    """A step as the loop makes it."""
    batch = give_credit(learner.score_before_credit(drafted(groups), objective), objective, rules=ON_POLICY)
    return learner.train(batch, objective, first_update=1).updates


def masses_of(model, batch):
    """(T,) Σπ² row by row from the model's own logits."""
    masses = np.full(len(batch.token_ids), np.nan)
    with torch.no_grad():
        for start, end in zip(batch.row_offsets, batch.row_offsets[1:], strict=False):
            ids = torch.tensor(batch.token_ids[start:end].astype(np.int64))
            temperature = torch.tensor(batch.temperature[start + 1 : end])
            probs = (model(ids[None]).logits[0, :-1].double() / temperature[:, None]).softmax(1)
            masses[start + 1 : end] = probs.square().sum(1).numpy()
    return masses


def test_every_token_that_credit_sees_has_each_score_of_the_weights_that_stand():
    learner = learner_of()
    learner.reference = learner_of(lively_model(seed=7)).scorer
    draft = drafted(two_turn_groups(temperature=0.7))
    found = learner.score_before_credit(draft, EVERYTHING).scores
    own = plain_scores(lively_model(), draft)
    due = {
        "proximal": own[0],
        "entropy": own[1],
        "reference": plain_scores(lively_model(seed=7), draft)[0],
        "sum_squared_probabilities": masses_of(lively_model(), draft),
    }
    assert found.keys() == due.keys()
    for name, stream in due.items():
        assert found[name][draft.acts] == pytest.approx(stream[draft.acts], abs=1e-4), name
        assert np.isnan(found[name][~draft.acts]).all(), name
    assert float(found["sum_squared_probabilities"][draft.acts].min()) > 1 / VOCAB


@pytest.mark.parametrize(
    ("objective", "names"),
    [
        (grpo(), set()),
        (LEVEL, {"entropy"}),
        (TOKENS, {"proximal", "sum_squared_probabilities"}),
        (SHAPED, {"proximal", "reference"}),
    ],
    ids=["nothing", "level groups", "token baseline", "KL in the reward"],
)
def test_only_what_the_credit_reads_is_made(objective, names):
    learner = learner_of()
    learner.freeze_reference()
    draft = drafted(two_turn_groups())
    made = learner.score_before_credit(draft, objective)
    assert made.scores.keys() == names
    assert (made is draft) == (not names)


def test_a_score_that_the_draft_has_stays():
    draft = drafted(two_turn_groups())
    given = replace(draft, scores={"entropy": np.full(len(draft.token_ids), 0.5, np.float32)})
    assert learner_of().score_before_credit(given, LEVEL) is given


def test_how_a_draft_is_cut_changes_no_score():
    draft = drafted(two_turn_groups())
    own = EVERYTHING.before_credit - {"reference"}
    whole, cut = (
        learner.score_before_credit(draft, replace(grpo(), before_credit=own)).scores
        for learner in (learner_of(), learner_of(token_budget=20, num_minibatches=3))
    )
    for name in own:
        assert cut[name][draft.acts] == pytest.approx(whole[name][draft.acts], abs=1e-5)


def test_copies_of_a_shared_segment_are_scored_in_each_of_their_rows():
    forest = Forest()
    forest.add("task", [1, 2])
    shared = forest.add("policy", [3, 4])
    forest.add("policy", [5, 6], after=shared)
    forest.add("policy", [7, 8, 9], after=shared)
    draft = drafted([group(episode(forest.segments, slot=0, outcome=1.0))])
    found = learner_of().score_before_credit(draft, LEVEL).scores["entropy"]
    assert np.isfinite(found[draft.acts]).all()
    first, second = (int(draft.row_offsets[row]) + 2 for row in (0, 1))
    assert found[first : first + 2] == pytest.approx(found[second : second + 2], abs=1e-5)


def test_a_reference_that_nobody_froze_is_a_sentence():
    with pytest.raises(LearnerError, match="needs reference scores; call freeze_reference"):
        learner_of().score_before_credit(drafted(two_turn_groups()), SHAPED)


@pytest.mark.row("S189")
def test_groups_that_all_passed_move_the_weights_where_credit_reads_their_entropies():
    level = two_turn_groups(2, rewards=(1, 1, 1))
    learner = learner_of()
    (done,) = learn(learner, level, LEVEL)
    assert done.outcome.is_applied and done.outcome.grad_norm > 0
    assert all(tensor.abs().max() > 0 for tensor in first_gradient(learner).values())
    (quiet,) = learn(learner_of(), level, grpo())
    assert quiet.outcome.grad_norm == 0.0


def test_the_updates_take_the_proximal_scores_that_the_credit_read():
    objective = crediting(grpo(), optimal_token_baseline)
    learner = learner_of(num_epochs=2)
    first, second = learn(learner, two_turn_groups(), objective)
    mask = first.plan.batch.action_mask
    scores = first.plan.batch.scores["proximal"]
    for done in (first, second):
        assert done.outcome.proximal is not None
        assert np.array_equal(done.outcome.proximal[mask], scores[mask])
        assert np.isnan(done.outcome.proximal[~mask]).all()
    assert first.outcome.current is not None and second.outcome.current is not None
    assert np.array_equal(first.outcome.current[mask], scores[mask]), "a ratio of 1 to the last bit"
    assert not np.array_equal(second.outcome.current[mask], scores[mask])


def test_a_credit_with_proximal_scores_trains_one_update_as_without_them():
    """The clipped objective that makes one update takes its own pass as proximal; scored beforehand it is the same."""
    groups = two_turn_groups()
    plain, scored = learner_of(), learner_of()
    (before,) = plain.train(batch_of(groups, grpo()), grpo(), first_update=1).updates
    (after,) = learn(scored, groups, replace(grpo(), before_credit=frozenset({"proximal"})))
    assert after.outcome.loss == before.outcome.loss
    assert relative_gap(first_gradient(plain), first_gradient(scored)) == 0.0


@pytest.mark.parametrize(
    "base", [rloo(), grpo(), bypassing_proximal(grpo())], ids=["no ratio", "token ratio", "bypass"]
)
def test_receipts_hold_the_proximal_scores_that_the_credit_read(base):
    objective = crediting(base, optimal_token_baseline)
    (done,) = learn(learner_of(), two_turn_groups(), objective)
    batch = done.plan.batch
    proximal = (receipt.proximal_logprobs for receipt in receipts_of(done.plan, done.outcome, objective))
    found = np.concatenate([scores for scores in proximal if scores is not None])
    assert np.array_equal(found, batch.scores["proximal"][batch.action_mask])


def test_a_kl_to_the_reference_pulls_the_policy_back():
    learner = learner_of(learning_rate=1e-2)
    learner.freeze_reference()
    level = two_turn_groups(4, rewards=(0, 0, 0))
    assert learn(learner, level, SHAPED)[0].outcome.grad_norm == 0.0, "the policy is its reference"
    learn(learner, two_turn_groups(4), rloo())
    (done,) = learn(learner, level, SHAPED)
    batch = done.plan.batch
    distance = (batch.scores["proximal"] - batch.scores["reference"].astype(np.float64))[batch.action_mask]
    assert np.abs(distance).max() > 0.01
    assert np.array_equal(batch.advantages[batch.action_mask], -0.1 * distance)
    assert done.outcome.is_applied and done.outcome.grad_norm > 0
    assert done.outcome.reference is not None
