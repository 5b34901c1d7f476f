"""The entropy bonus as a term of the loss."""

from dataclasses import replace

import pytest
import torch

from rollwright.algorithms import ObjectiveError, TokenMean, check_objective, grpo, loss_terms, with_regularizer
from rollwright.algorithms.denominators.plain import SequenceSum
from rollwright.algorithms.regularizers.entropy_bonus import entropy_bonus, entropy_regularizer
from rollwright.algorithms.regularizers.full_vocabulary import entropy_of_logits
from tests.algorithms.test_ratio_and_clip import streams
from tests.cases import case


def with_bonus(coefficient, **changes):
    return with_regularizer(replace(grpo(), **changes), entropy_regularizer(coefficient), needs=frozenset({"entropy"}))


def test_it_is_minimised_where_entropy_rises():
    piece = streams([0.0, 0.0], current=[-1.0, -1.0], proximal=[-1.0, -1.0], entropy=[0.7, 0.3])
    weights = {"entropy": torch.full((2,), 0.5, dtype=torch.float64)}
    assert float(loss_terms(with_bonus(0.1), piece, weights).loss) == pytest.approx(-0.1 * 0.5)


def test_its_gradient_reaches_the_logits_as_the_entropy_has_it():
    logits = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    entropy = entropy_of_logits(logits)
    piece = replace(streams([0.0] * 3, current=[-1.0] * 3, proximal=[-1.0] * 3), entropy=entropy)
    weights = {"entropy": torch.full((3,), 1 / 3, dtype=torch.float64)}
    (found,) = torch.autograd.grad(loss_terms(with_bonus(0.2), piece, weights).loss, logits)
    leaf = logits.detach().requires_grad_()
    (due,) = torch.autograd.grad(-0.2 * entropy_of_logits(leaf).mean(), leaf)
    assert torch.allclose(found, due)


def test_masked_entropies_never_enter():
    worked = case("F115")
    mask = torch.tensor(worked.input["mask"]).flatten().tolist()
    entropy = torch.tensor(worked.input["entropy"]).flatten().tolist()
    filled = [h if m else worked.input["sentinel_logprob_at_padding"] for h, m in zip(entropy, mask, strict=True)]
    piece = streams(
        [0.0] * len(mask), current=[-1.0] * len(mask), proximal=[-1.0] * len(mask), entropy=filled, mask=mask
    )
    weights = {"entropy": torch.tensor([1 / sum(mask) if m else torch.nan for m in mask], dtype=torch.float64)}
    loss = float(loss_terms(with_bonus(1.0), piece, weights).loss)
    assert -loss == pytest.approx(worked.expect["entropy_token_mean"])


def test_its_denominator_is_the_token_mean_whatever_that_of_the_policy_term():
    objective = with_bonus(0.1, weights=SequenceSum())
    assert objective.regularizers[0].weights == TokenMean()
    check_objective(objective, group_size=4)


def test_an_objective_that_does_not_ask_for_entropy_is_refused():
    with pytest.raises(ObjectiveError, match="add 'entropy' to the objective's `needs`"):
        entropy_bonus(streams([0.0], current=[0.0]))
