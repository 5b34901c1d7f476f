"""A policy that verifies: its loss, the balance of its verdicts, and votes."""

import pytest
import torch

from rollwright.algorithms.credit.verdicts import verdict_loss, verdict_scores, verdict_weights, weighted_vote
from rollwright.algorithms.errors import ObjectiveError
from tests.cases import method_fixture


def test_the_vote_matches_the_worked_numbers():
    worked = method_fixture("M20.a")
    vote = weighted_vote(worked.input["v"], worked.input["answer"])
    assert dict(vote.totals) == pytest.approx(worked.expect["weighted_vote"])
    assert (vote.winner, vote.best_index) == (worked.expect["winner"], worked.expect["best_of_n_index"])


def test_of_equal_sums_and_scores_the_first_wins():
    vote = weighted_vote([0.5, 0.5], ["b", "a"])
    assert (vote.winner, vote.best_index) == ("b", 0)
    with pytest.raises(ObjectiveError, match="0 scores meet 0 answers"):
        weighted_vote([], [])


def test_the_loss_is_cross_entropy_over_the_vocabulary():
    logits = torch.tensor([[2.0, 0.0, 1.0], [0.5, 0.5, 0.5]], dtype=torch.float64)
    loss = verdict_loss(logits, torch.tensor([1.0, 0.0]), yes_token=2, no_token=0)
    expected = -torch.log_softmax(logits, -1)
    assert loss.tolist() == pytest.approx([float(expected[0, 2]), float(expected[1, 0])])
    assert verdict_scores(logits, yes_token=2).tolist() == pytest.approx([float(expected[0, 2].neg().exp()), 1 / 3])


def test_its_gradient_is_that_of_finite_differences_and_0_where_unscored():
    logits = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    outcome = torch.tensor([1.0, 0.0, torch.nan])

    def loss(given):
        return verdict_loss(given, outcome, yes_token=3, no_token=1)

    assert torch.autograd.gradcheck(loss, (logits,))
    (gradient,) = torch.autograd.grad(loss(logits).sum(), logits)
    assert not gradient[2].any()


def test_bf16_verdicts_are_normalized_in_float32():
    logits = torch.tensor([[20.0, 19.875]], dtype=torch.bfloat16)
    exact = verdict_scores(logits.double(), yes_token=0)
    assert verdict_scores(logits, yes_token=0).dtype == torch.float32
    torch.testing.assert_close(verdict_scores(logits, yes_token=0).double(), exact)


def test_every_prompt_and_every_verdict_within_it_weighs_the_same():
    outcome = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, torch.nan])
    weights = verdict_weights(outcome, torch.tensor([4, 4, 4, 4, 9, 9]), coefficient=0.6)
    assert weights.tolist() == pytest.approx([0.05, 0.05, 0.05, 0.15, 0.3, 0.0])
    assert verdict_weights(outcome[5:], torch.tensor([9]), coefficient=0.6).tolist() == [0.0]
    with pytest.raises(ObjectiveError, match="RL\\^V did not disclose it"):
        verdict_weights(outcome, torch.zeros(6))


def test_wrong_shapes_are_named():
    with pytest.raises(ObjectiveError, match="2 verdicts meet 1 outcomes"):
        verdict_loss(torch.zeros(2, 3), torch.zeros(1), yes_token=0, no_token=1)


NUM_ATTEMPTS = 9


def _attempts(policy, num_tasks, generator):
    """Answers by task: 0 is right, 1 is the mistake that all make; and a trace that tells them apart, with noise."""
    answers = torch.multinomial(policy.expand(num_tasks, -1), NUM_ATTEMPTS, replacement=True, generator=generator)
    is_right = (answers == 0).to(torch.float64)
    evidence = is_right + 0.6 * torch.randn(answers.shape, dtype=torch.float64, generator=generator)
    return answers, is_right, evidence


@pytest.mark.row("S197")
def test_a_verifier_that_learned_from_the_rollouts_of_rl_beats_the_majority():
    """The policy and its verdict learn together; then the verdict weighs the votes on tasks of their own."""
    generator = torch.Generator().manual_seed(3)
    policy_scores = torch.tensor([0.0, 2.0, 0.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    head = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)

    def verdict_logits(evidence):
        seen = torch.stack([evidence.flatten(), torch.ones(evidence.numel(), dtype=torch.float64)], 1)
        return seen @ head

    for _ in range(60):
        policy = torch.softmax(policy_scores, -1)
        answers, is_right, evidence = _attempts(policy.detach(), 16, generator)
        advantage = is_right - is_right.mean(1, keepdim=True)
        pushed = (torch.log_softmax(policy_scores, -1)[answers] * advantage).mean()
        outcome, prompt = is_right.flatten(), torch.arange(16).repeat_interleave(NUM_ATTEMPTS)
        judged = verdict_loss(verdict_logits(evidence), outcome, yes_token=0, no_token=1)
        loss = -pushed + (verdict_weights(outcome, prompt, coefficient=1.0) * judged).sum()
        gradients = torch.autograd.grad(loss, (policy_scores, head))
        policy_scores = (policy_scores - 0.1 * gradients[0]).detach().requires_grad_()
        head = (head - 0.5 * gradients[1]).detach().requires_grad_()

    answers, _, evidence = _attempts(torch.softmax(policy_scores.detach(), -1), 300, generator)
    scores = verdict_scores(verdict_logits(evidence).detach(), yes_token=0).view(answers.shape)
    num_voted = num_majority = 0
    for task_answers, task_scores in zip(answers.tolist(), scores.tolist(), strict=True):
        named = [str(answer) for answer in task_answers]
        num_voted += weighted_vote(task_scores, named).winner == "0"
        num_majority += weighted_vote([1.0] * NUM_ATTEMPTS, named).winner == "0"
    assert num_voted > num_majority + 60, (num_voted, num_majority)
