"""Preference scores learned from pairs (M118)."""

import math

import pytest
import torch

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.rewards.bradley_terry import pair_accuracy, preference_chance, preference_loss


@pytest.mark.row("S372")
def test_the_loss_is_that_of_the_score_gap_and_held_out_pairs_have_an_accuracy():
    chosen = torch.tensor([1.2, 0.0, 2.0, 1.0], dtype=torch.float64)
    rejected = torch.tensor([0.4, 0.0, 3.0, -1.0], dtype=torch.float64)
    due = [-math.log(1 / (1 + math.exp(-gap))) for gap in (0.8, 0.0, -1.0, 2.0)]
    assert preference_loss(chosen, rejected).tolist() == pytest.approx(due)
    assert preference_chance(chosen, rejected).tolist() == pytest.approx([math.exp(-loss) for loss in due])
    assert pair_accuracy(chosen, rejected) == pytest.approx((1 + 0.5 + 0 + 1) / 4)


def test_the_gradient_is_that_of_finite_differences():
    scores = [torch.tensor([0.3, -2.0, 5.0], dtype=torch.float64, requires_grad=True) for _ in range(2)]
    with torch.no_grad():
        scores[1].mul_(-0.7)
    assert torch.autograd.gradcheck(preference_loss, tuple(scores))


def test_a_hopeless_gap_has_a_finite_loss_and_gradient():
    chosen = torch.tensor([-1e4], requires_grad=True)
    loss = preference_loss(chosen, torch.tensor([1e4]))
    loss.sum().backward()
    assert float(loss.detach()) == pytest.approx(2e4)
    assert chosen.grad is not None and float(chosen.grad) == -1


def test_no_pair_has_no_accuracy_and_what_is_no_pair_is_refused():
    assert pair_accuracy(torch.zeros(0), torch.zeros(0)) is None
    with pytest.raises(ObjectiveError, match="give pairs"):
        preference_loss(torch.zeros(2), torch.zeros(3))
