"""KL estimators: value, direction, gradient, and what keeps them finite."""

import pytest
import torch

from rollwright.algorithms import (
    Regularizer,
    TokenMean,
    center_within_group,
    group_diagnostics,
    grpo,
    kl_k1,
    kl_k2,
    kl_k3,
    kl_k3_plus,
    loss_terms,
    with_regularizer,
)
from rollwright.algorithms.regularizers.kl import is_k3_clamped, k3_of
from tests.algorithms.pieces import Batch, credit_inputs, pack, run, weights_of
from tests.algorithms.test_ratio_and_clip import streams
from tests.cases import case, method_fixture

ESTIMATORS = {"k1": kl_k1, "k2": kl_k2, "k3": kl_k3}


def value_and_gradient(estimate, distances):
    current = torch.tensor(distances, dtype=torch.float64, requires_grad=True)
    found = estimate(streams([0.0] * len(distances), current=current, reference=[0.0] * len(distances)))
    (gradient,) = torch.autograd.grad(found.sum(), current)
    return found.tolist(), gradient.tolist()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_match_the_worked_numbers(name):
    fixture = method_fixture("M81.a")
    value, gradient = value_and_gradient(ESTIMATORS[name], fixture.input["log_cur_minus_ref"])
    assert value == pytest.approx(fixture.expect[name], abs=fixture.tol)
    assert gradient == pytest.approx(fixture.expect[f"grad_{name}"], abs=fixture.tol)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_gradients_are_those_of_finite_differences(name):
    current = torch.tensor([-1.0, -0.3, -2.0, -1.2], dtype=torch.float64, requires_grad=True)

    def term(scores):
        return ESTIMATORS[name](streams([0.0] * 4, current=scores, reference=[-1.4, -0.3, -0.7, -4.0]))

    assert torch.autograd.gradcheck(term, (current,))


def test_k3_plus_reports_k3_and_follows_k2():
    fixture = method_fixture("M81.a")
    value, gradient = value_and_gradient(kl_k3_plus, fixture.input["log_cur_minus_ref"])
    assert value == pytest.approx(fixture.expect["k3"], abs=fixture.tol)
    assert gradient == pytest.approx(fixture.expect["grad_k2"], abs=fixture.tol)


@pytest.mark.case("F49")
def test_sign_direction_and_expectation():
    given_case = case("F49")
    policy = torch.tensor(given_case.input["policy"], dtype=torch.float64)
    reference = torch.tensor(given_case.input["reference"], dtype=torch.float64)
    piece = streams([0.0] * 3, current=policy.log(), reference=reference.log())
    for name, estimate in ESTIMATORS.items():
        found = estimate(piece)
        assert found.tolist() == pytest.approx(given_case.expect[name], abs=1e-9)
        assert float((policy * found).sum()) == pytest.approx(given_case.expect["expectation"][name], abs=1e-9)
    assert given_case.expect["expectation"]["k3"] == given_case.expect["exact_kl_policy_ref"]
    assert (kl_k3(piece) >= 0).all()


@pytest.mark.case("F51")
def test_k3_is_finite_in_value_and_gradient_for_large_ratios():
    given_case = case("F51")
    # The case has log(reference/policy); ours is policy over reference.
    distance = -torch.tensor(given_case.input["log_ratio_ref_minus_policy"], dtype=torch.float32)
    distance.requires_grad_()
    found = k3_of(distance)
    (gradient,) = torch.autograd.grad(found.sum(), distance)
    assert found.tolist() == given_case.expect["value"]
    assert gradient.isfinite().all()
    assert gradient[2] == given_case.expect["gradient_wrt_logp_at_0"]
    assert is_k3_clamped(distance).tolist() == [True, True, False]


@pytest.mark.case("F41")
def test_a_dead_group_keeps_its_kl_term_and_has_no_policy_gradient():
    given_case = case("F41")
    regularizer = Regularizer(
        component="kl", coefficient=given_case.input["beta"], per_token=kl_k1, weights=TokenMean()
    )
    objective = with_regularizer(grpo(), regularizer, needs=frozenset({"reference"}))
    rewards = given_case.input["rewards"]
    inputs = credit_inputs(rewards, lengths=[given_case.input["tokens"]] * len(rewards))
    scores = {
        "current": torch.zeros(2, dtype=torch.float64),
        "proximal": torch.zeros(2, dtype=torch.float64),
        "reference": -torch.tensor(given_case.input["per_token_kl"], dtype=torch.float64),
    }
    batch = Batch(inputs=inputs, logprobs=scores)
    terms, gradient = run(objective, pack(objective, batch, [0, 1], weights=weights_of(objective, batch)))
    assert float(terms.terms["policy_gradient"].detach().sum()) == given_case.expect["policy_gradient"]
    assert float(terms.terms["kl"].detach().sum()) == pytest.approx(given_case.expect["kl_loss_if_kept"])
    # Its gradient is that of the KL term alone.
    assert gradient[gradient != 0].tolist() == pytest.approx([given_case.input["beta"] / 2] * 2)
    counted = {one.name: one.value for one in group_diagnostics(inputs, success_at=1.0)}
    assert counted["reward/zero_var_frac"] == 1.0
    assert center_within_group(inputs).untrained == {0: "zero_contrast", 1: "zero_contrast"}


class Falling:
    """A controller that halves its coefficient with every observation."""

    def __init__(self) -> None:
        self._coefficient = 1.0

    def observe(self, metrics):
        self._coefficient /= 2

    def value(self):
        return self._coefficient

    def state(self):
        return {"coefficient": self._coefficient}

    def restore(self, state):
        self._coefficient = state["coefficient"]


def test_a_controller_gives_the_coefficient_of_the_next_update():
    controller = Falling()
    regularizer = Regularizer(component="kl", coefficient=controller, per_token=kl_k2, weights=TokenMean())
    objective = with_regularizer(grpo(), regularizer, needs=frozenset({"reference"}))
    piece = streams([0.0], current=[0.0], proximal=[0.0], reference=[-1.0])
    weights = {"kl": torch.ones(1, dtype=torch.float64)}
    assert float(loss_terms(objective, piece, weights).loss) == pytest.approx(0.5)
    controller.observe({})
    assert float(loss_terms(objective, piece, weights).loss) == pytest.approx(0.25)
