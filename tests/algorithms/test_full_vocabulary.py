"""Entropy and KL over the whole vocabulary: values, gradients, zeros and bfloat16."""

import math

import pytest
import torch

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.regularizers.full_vocabulary import entropy_of_logits, exact_kl, forward_kl
from tests.cases import case, method_fixture

FUNCTIONS = [entropy_of_logits, lambda x: exact_kl(x, OTHER), lambda x: forward_kl(x, OTHER)]
OTHER = torch.tensor([0.3, -0.2, 0.9, 0.0], dtype=torch.float64)


def test_entropy_and_its_gradient_match_the_worked_numbers():
    fixture = method_fixture("M85.a")
    logits = torch.tensor(fixture.input["logits"], dtype=torch.float64, requires_grad=True)
    entropy = entropy_of_logits(logits)
    (gradient,) = torch.autograd.grad(entropy, logits)
    assert float(entropy.detach()) == pytest.approx(fixture.expect["H"], rel=fixture.tol)
    assert gradient.tolist() == pytest.approx(fixture.expect["dH_dlogit"], rel=fixture.tol)


def test_both_directions_match_the_worked_numbers():
    fixture = method_fixture("M23.b")
    student, teacher = (torch.tensor(fixture.input[name]).double().log() for name in ("student", "teacher"))
    assert float(exact_kl(student, teacher)) == pytest.approx(fixture.expect["reverse_kl"], rel=1e-6)
    assert float(forward_kl(student, teacher)) == pytest.approx(fixture.expect["forward_kl"], rel=1e-6)


def test_the_exact_kl_is_what_the_estimators_sample():
    worked = case("F49")
    policy, reference = (torch.tensor(worked.input[name]).double() for name in ("policy", "reference"))
    assert float(exact_kl(policy.log(), reference.log())) == pytest.approx(
        worked.expect["exact_kl_policy_ref"], rel=1e-6
    )


@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients_are_those_of_finite_differences(function):
    logits = torch.tensor([0.7, -1.1, 0.2, 1.9], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (logits,))


@pytest.mark.case("F53")
def test_a_probability_of_zero_adds_nothing_to_value_or_gradient():
    worked = case("F53")
    logits = torch.tensor([float(one) for one in worked.input["logits"]], requires_grad=True)
    entropy = entropy_of_logits(logits)
    (gradient,) = torch.autograd.grad(entropy, logits)
    assert float(entropy.detach()) == pytest.approx(worked.expect["entropy"])
    assert gradient.tolist() == pytest.approx(worked.expect["gradient"], abs=1e-7)


@pytest.mark.parametrize("kl", [exact_kl, forward_kl])
def test_a_zero_in_both_is_no_divergence(kl):
    logits = torch.tensor([0.3, -0.4, -math.inf], dtype=torch.float64, requires_grad=True)
    other = torch.tensor([0.0, 0.0, -math.inf], dtype=torch.float64)
    value = kl(logits, other)
    (gradient,) = torch.autograd.grad(value, logits)
    assert float(value.detach()) == pytest.approx(float(kl(logits[:2].detach(), other[:2])))
    assert gradient.isfinite().all() and gradient[2] == 0.0


def test_mass_where_the_other_has_none_is_infinite():
    level, cut = torch.zeros(3), torch.tensor([0.0, 0.0, -math.inf])
    assert float(exact_kl(level, cut)) == math.inf
    assert float(exact_kl(cut, level)) == pytest.approx(math.log(1.5))
    assert float(forward_kl(cut, level)) == math.inf


@pytest.mark.parametrize("kl", [exact_kl, forward_kl])
def test_equal_bfloat16_logits_have_a_divergence_of_exactly_zero(kl):
    logits = (20.0 + torch.randn(5, 50, generator=torch.Generator().manual_seed(0))).to(torch.bfloat16)
    found = kl(logits, logits.clone())
    assert found.dtype == torch.float32 and not found.any()


def test_temperature_divides_the_logits():
    logits = torch.tensor([2.0, 0.0, -2.0], dtype=torch.float64)
    assert float(entropy_of_logits(logits, temperature=2.0)) == pytest.approx(float(entropy_of_logits(logits / 2)))
    with pytest.raises(ObjectiveError, match="temperature of an entropy is 0"):
        entropy_of_logits(logits, temperature=0.0)


def test_shapes_that_differ_are_refused():
    with pytest.raises(ObjectiveError, match=r"\(2, 3\) and \(3,\)"):
        exact_kl(torch.zeros(2, 3), torch.zeros(3))
