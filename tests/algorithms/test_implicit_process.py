"""Process rewards from a model that learns from outcomes: two ways to center, and how the model learns."""

from dataclasses import replace

import pytest
import torch

from rollwright.algorithms.credit.groups import UNSCORED, ZERO_CONTRAST
from rollwright.algorithms.credit.implicit_process import implicit_process_reward, process_reward_loss, process_rewards
from rollwright.algorithms.credit.leave_one_out import leave_one_out
from rollwright.algorithms.errors import ObjectiveError
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def rows(process, rewards, *, reference=None, groups=None, episodes=None):
    flat = torch.tensor([value for row in process for value in row], dtype=torch.float64)
    inputs = credit_inputs(rewards, groups=groups, lengths=[len(row) for row in process], episodes=episodes)
    start = torch.zeros_like(flat) if reference is None else torch.tensor(reference, dtype=torch.float64)
    return replace(inputs, logprobs={"process": flat, "process_reference": start})


@pytest.mark.parametrize(("form", "name"), [("paper", "A_paper"), ("released", "A_code_unwhitened")])
def test_both_ways_to_center_match_the_worked_numbers(form, name):
    worked = method_fixture("M19.a")
    credit = implicit_process_reward(rows(worked.input["r_phi"], worked.input["R"]), beta=1.0, form=form)
    expected = [value for row in worked.expect[name] for value in row]
    assert credit.advantages.tolist() == pytest.approx(expected, abs=worked.tol)


@pytest.mark.row("S288")
def test_a_token_is_rewarded_by_its_log_ratio_and_the_two_baselines_are_separate():
    inputs = rows([[-1.0, -2.0], [-1.5]], [1.0, 0.0], reference=[-1.2, -2.6, -1.1])
    assert process_rewards(inputs, beta=0.05).tolist() == pytest.approx([0.05 * 0.2, 0.05 * 0.6, 0.05 * -0.4])
    # Another outcome moves the outcome part alone; other process scores move the process part alone.
    base = implicit_process_reward(inputs).advantages
    shifted = implicit_process_reward(replace(inputs, rewards=torch.tensor([2.0, 0.0], dtype=torch.float64))).advantages
    assert (shifted - base).tolist() == pytest.approx([1.0, 1.0, -1.0])
    outcome_alone = implicit_process_reward(rows([[0.0, 0.0], [0.0]], [1.0, 0.0])).advantages
    assert outcome_alone.equal(leave_one_out(inputs).advantages)
    process_alone = implicit_process_reward(replace(inputs, rewards=torch.zeros(2, dtype=torch.float64))).advantages
    assert process_alone.tolist() == pytest.approx((base - outcome_alone).tolist())


@pytest.mark.row("S288")
def test_its_cross_entropy_falls_on_batches_as_they_come():
    """Answers of four tokens; those with token 0 somewhere are right. Each batch is fresh."""
    generator = torch.Generator().manual_seed(5)
    scores = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    reference = torch.log_softmax(torch.zeros(6, dtype=torch.float64), -1)
    losses: list[float] = []
    for _ in range(150):
        answers = torch.randint(6, (64, 4), generator=generator)
        labels = (answers == 0).any(1).to(torch.float64)
        process = torch.log_softmax(scores, -1)[answers].flatten()
        loss = process_reward_loss(process, reference[answers].flatten(), labels, torch.arange(65) * 4, beta=1.0).mean()
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - gradient).detach().requires_grad_()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(0.6931472)
    assert sum(losses[-10:]) / 10 < 0.75 * losses[0]
    assert int(scores.detach().argmax()) == 0


def test_the_cross_entropy_matches_the_worked_numbers():
    worked = method_fixture("M19.b")
    sums = torch.tensor(worked.input["sum_r_phi"], dtype=torch.float64)
    labels = torch.tensor(worked.input["label"])
    loss = process_reward_loss(sums, torch.zeros_like(sums), labels, torch.arange(3), beta=1.0)
    assert float(loss.mean()) == pytest.approx(worked.expect["bce"], abs=worked.tol)


def test_its_gradient_is_that_of_finite_differences():
    process = torch.tensor([-0.5, -1.2, -0.3, -2.0, -0.1], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([-0.7, -1.0, -0.9, -1.1, -0.2], dtype=torch.float64)
    labels = torch.tensor([1.0, 0.25, torch.nan], dtype=torch.float64)
    offsets = torch.tensor([0, 2, 4, 5])

    def loss(scores):
        return process_reward_loss(scores, reference, labels, offsets, beta=0.3)

    assert torch.autograd.gradcheck(loss, (process,))
    (gradient,) = torch.autograd.grad(loss(process).sum(), process)
    assert gradient[4] == 0.0


def test_an_unscored_row_with_a_score_that_is_not_finite_changes_nothing():
    process = torch.tensor([-0.5, float("nan")], dtype=torch.float64, requires_grad=True)
    loss = process_reward_loss(process, torch.zeros(2), torch.tensor([1.0, torch.nan]), torch.arange(3))
    (gradient,) = torch.autograd.grad(loss.sum(), process)
    assert loss[1] == 0.0 and gradient.isfinite().all() and gradient[1] == 0.0


def test_a_discount_is_of_process_rewards_alone():
    inputs = rows([[0.0, 1.0], [0.0, 0.0]], [1.0, 0.0])
    found = implicit_process_reward(inputs, beta=1.0, discount=0.5).advantages
    # Row 0: r − 0 = (0, 1), from each token on (0.5, 1), and the outcome 1; row 1: r − 0.5 = (−0.5, −0.5).
    assert found.tolist() == pytest.approx([1.5, 2.0, -0.75 - 1.0, -0.5 - 1.0])


def test_rows_of_one_episode_are_one_comparison():
    split = rows([[0.2], [0.4], [0.1]], [1.0, 1.0, 0.0], episodes=[0, 0, 1])
    # The other episode's mean is 0.1 for both rows of episode 0, theirs (0.2 + 0.4)/2 for row 2.
    found = implicit_process_reward(split, beta=1.0).advantages
    assert found.tolist() == pytest.approx([0.1 + 1.0, 0.3 + 1.0, -0.2 - 1.0])


def test_a_group_of_one_and_unscored_rows_teach_nothing():
    alone = implicit_process_reward(rows([[0.3, 0.1]], [1.0]))
    assert not alone.advantages.any() and alone.untrained == {0: ZERO_CONTRAST}
    credit = implicit_process_reward(rows([[0.2], [0.1], [9.0]], [1.0, 0.0, None]), beta=1.0)
    assert credit.advantages.tolist() == pytest.approx([1.1, -1.1, 0.0])
    assert credit.untrained == {2: UNSCORED}


def test_level_rows_without_any_process_reward_have_exactly_zero():
    for form in ("paper", "released"):
        credit = implicit_process_reward(rows([[0.0], [0.0, 0.0]], [0.1 + 0.2, 0.3]), form=form)
        assert credit.advantages.tolist() == [0.0, 0.0, 0.0]
        assert credit.untrained == {0: ZERO_CONTRAST, 1: ZERO_CONTRAST}


def test_a_score_that_is_not_finite_spoils_what_looks_ahead_to_it_alone():
    credit = implicit_process_reward(rows([[0.2, float("nan"), 0.4], [0.1]], [1.0, 0.0]), beta=1.0)
    assert credit.advantages.isnan().tolist() == [True, True, False, False]
    assert credit.advantages[2:].tolist() == pytest.approx([0.3 + 1.0, 0.1 - 0.3 - 1.0])


def test_what_is_wrong_is_named():
    inputs = rows([[0.2], [0.1]], [1.0, 0.0])
    with pytest.raises(ObjectiveError, match="process log-probabilities"):
        implicit_process_reward(replace(inputs, logprobs={}))
    with pytest.raises(ObjectiveError, match="'paper' or 'released'"):
        implicit_process_reward(inputs, form="mine")  # type: ignore[arg-type]  # a wrong choice is meant
    with pytest.raises(ObjectiveError, match="one label a row"):
        process_reward_loss(torch.zeros(2), torch.zeros(2), torch.zeros(1), torch.arange(3))
