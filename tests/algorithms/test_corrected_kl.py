"""The KL term on tokens of another policy."""

from functools import partial

import pytest
import torch

from rollwright.algorithms import kl_k3, token_ratio
from rollwright.algorithms.regularizers.corrected_kl import kl_k3_corrected
from rollwright.algorithms.regularizers.full_vocabulary import exact_kl
from tests.algorithms.test_ratio_and_clip import streams
from tests.cases import method_fixture


def test_it_is_the_ratio_times_k3():
    fixture = method_fixture("M83.a")
    distance, rho = fixture.input["log_cur_minus_ref"], fixture.input["rho"]
    behavior = [d - torch.tensor(r, dtype=torch.float64).log() for d, r in zip(distance, rho, strict=True)]
    piece = streams([0.0], current=distance, behavior=behavior, reference=[0.0])
    assert kl_k3(piece).tolist() == pytest.approx(fixture.expect["k3"], rel=fixture.tol)
    assert kl_k3_corrected(piece).tolist() == pytest.approx(fixture.expect["k3_is"], rel=fixture.tol)


def expected_under(behavior, per_token, logits, reference):
    """The mean of a term over tokens that `behavior` samples, with its gradient in the logits."""
    logits = logits.clone().requires_grad_()
    count = len(logits)
    piece = streams([0.0] * count, current=logits.log_softmax(0), behavior=behavior.log(), reference=reference.log())
    mean = (behavior * per_token(piece)).sum()
    (gradient,) = torch.autograd.grad(mean, logits)
    return float(mean.detach()), gradient


def test_from_another_policy_s_tokens_it_has_value_and_gradient_of_the_exact_kl():
    logits = torch.tensor([0.4, -0.3, 0.1], dtype=torch.float64)
    behavior = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    reference = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    leaf = logits.clone().requires_grad_()
    exact = exact_kl(leaf, reference.log())
    (due,) = torch.autograd.grad(exact, leaf)
    value, gradient = expected_under(behavior, kl_k3_corrected, logits, reference)
    assert value == pytest.approx(float(exact.detach())) and gradient.tolist() == pytest.approx(due.tolist())
    plain, biased = expected_under(behavior, kl_k3, logits, reference)
    assert abs(plain - float(exact.detach())) > 1e-3 and (biased - due).abs().max() > 1e-3


def test_the_ratio_of_public_code_is_an_argument():
    piece = streams([0.0], current=[-1.0], behavior=[-3.0], proximal=[-1.5], reference=[-1.2])
    found = kl_k3_corrected(piece, ratio=token_ratio)
    assert found.tolist() == pytest.approx((torch.tensor(0.5).double().exp() * kl_k3(piece)).tolist())


def test_the_gradient_is_that_of_finite_differences():
    def term(current, ratio):
        piece = streams([0.0] * 3, current=current, behavior=[-1.1, -0.4, -2.0], reference=[-0.9, -0.8, -1.0])
        return kl_k3_corrected(piece, **ratio)

    current = torch.tensor([-1.0, -0.5, -1.7], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(partial(term, ratio={}), (current,))
