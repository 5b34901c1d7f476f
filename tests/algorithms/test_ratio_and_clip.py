"""Token ratios, the clip and its flags."""

import pytest
import torch

from rollwright.algorithms import (
    Clip,
    ObjectiveError,
    TokenStreams,
    bypass_ratio,
    grpo,
    loss_terms,
    no_ratio,
    policy_gradient,
    staleness_ratio,
    token_ratio,
    update_diagnostics,
)
from rollwright.algorithms.flags import CLIPPED_HIGH, CLIPPED_LOW, has_flag
from rollwright.algorithms.ratios.token_ratios import clamped_exp
from tests.algorithms.pieces import Batch, credit_inputs, pack, run, weights_of
from tests.cases import case, method_fixture


def streams(advantages, *, entropy=None, mask=None, versions=None, **logprobs):
    """One row of action tokens with these streams."""
    length = len(advantages)
    return TokenStreams(
        row_offsets=torch.tensor([0, length]),
        action_mask=torch.tensor([True] * length if mask is None else mask, dtype=torch.bool),
        advantages=torch.tensor(advantages, dtype=torch.float64),
        token_weights=torch.full((length,), 1.0 / max(length, 1), dtype=torch.float64),
        policy_versions=torch.tensor([0] * length if versions is None else versions, dtype=torch.int32),
        logprobs={name: torch.as_tensor(values, dtype=torch.float64) for name, values in logprobs.items()},
        values={},
        entropy=None if entropy is None else torch.tensor(entropy, dtype=torch.float64),
    )


def clipped_at(ratios, advantage, clip):
    """Value, gradient in the log-probability, and flags at these ratios."""
    current = torch.tensor(ratios, dtype=torch.float64).log().requires_grad_()
    piece = streams([advantage] * len(ratios), current=current, proximal=[0.0] * len(ratios))
    found = clip(token_ratio(piece), piece)
    (gradient,) = torch.autograd.grad(found.per_token.sum(), current)
    return found.per_token.tolist(), gradient.tolist(), found.flags


def test_token_ratio_matches_the_worked_numbers():
    fixture = method_fixture("M35.a")
    piece = streams([0.0] * 3, current=fixture.input["cur"], proximal=fixture.input["prox"])
    assert token_ratio(piece).tolist() == pytest.approx(fixture.expect["rho"], abs=fixture.tol)
    held = method_fixture("M35.b")
    found = clamped_exp(torch.tensor(held.input["log_ratio"], dtype=torch.float64))
    assert found.tolist() == pytest.approx(held.expect["rho"], rel=1e-9)


def test_beyond_its_clamp_a_ratio_has_no_gradient():
    log_ratio = torch.tensor([20.5, -20.5, 20.0, 0.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(clamped_exp(log_ratio).log().sum(), log_ratio)
    assert gradient.tolist() == pytest.approx([0.0, 0.0, 1.0, 1.0])


def test_the_three_ratios_keep_their_streams_apart():
    piece = streams([0.0], behavior=[-2.0], proximal=[-1.5], current=[-1.0])
    assert token_ratio(piece).log().item() == pytest.approx(0.5)
    assert staleness_ratio(piece).log().item() == pytest.approx(0.5)
    assert bypass_ratio(piece).log().item() == pytest.approx(1.0)
    assert no_ratio(piece).tolist() == [1.0]


def test_a_stream_that_was_not_asked_for_is_refused_by_name():
    with pytest.raises(ObjectiveError, match="'proximal' to the objective's `needs`"):
        token_ratio(streams([0.0], current=[0.0]))


@pytest.mark.parametrize("fixture_id", ["M49.a", "M50.a"])
def test_clip_matches_the_worked_numbers(fixture_id):
    fixture = method_fixture(fixture_id)
    clip = Clip(low=fixture.input["lo"], high=fixture.input["hi"])
    for sign, advantage in zip(("pos", "neg"), fixture.input["A"], strict=True):
        value, gradient, _ = clipped_at(fixture.input["rho"], advantage, clip)
        assert value == pytest.approx(fixture.expect[f"J_{sign}"], abs=fixture.tol)
        assert gradient == pytest.approx(fixture.expect[f"g_{sign}"], abs=fixture.tol)


@pytest.mark.row("S160")
def test_clip_higher_keeps_the_gradient_of_a_ratio_of_1_25():
    fixture = method_fixture("M50.b")
    (ratio,), advantage = fixture.input["rho"], fixture.input["A"]
    assert clipped_at([ratio], advantage, Clip(high=1.20))[1] == fixture.expect["g_at_1.20"]
    assert clipped_at([ratio], advantage, Clip(high=1.28))[1] == pytest.approx(fixture.expect["g_at_1.28"])


def test_both_clip_branches_and_signs():
    """The survey's hand values: bounds 0.8 and 1.28."""
    clip = Clip(low=0.8, high=1.28)
    assert clipped_at([1.5, 0.5], 1.0, clip)[0] == pytest.approx([1.28, 0.5])
    assert clipped_at([0.5, 1.5], -1.0, clip)[0] == pytest.approx([-0.8, -1.5])


def test_a_ratio_on_a_bound_is_inside():
    clip = Clip(low=0.5, high=2.0)
    piece = streams([1.0, -1.0], current=[0.0, 0.0])
    ratio = torch.tensor([2.0, 0.5], dtype=torch.float64, requires_grad=True)
    found = clip(ratio, piece)
    (gradient,) = torch.autograd.grad(found.per_token.sum(), ratio)
    assert gradient.tolist() == [1.0, -1.0]
    assert not found.flags.any()


@pytest.mark.parametrize("bounds", [(0.2, 0.2), (1.1, 1.2), (-0.1, 1.2)])
def test_bounds_that_do_not_hold_one_are_refused(bounds):
    with pytest.raises(ObjectiveError, match="hold 1"):
        Clip(low=bounds[0], high=bounds[1])


@pytest.mark.case("F44")
def test_flags_say_where_the_clipped_branch_is_active():
    given_case = case("F44")
    ratios, mask = given_case.input["ratios"], given_case.input["mask"]
    low, high = given_case.input["eps"]
    piece = streams(
        given_case.input["advantages"],
        mask=mask,
        proximal=[0.0] * len(ratios),
        current=torch.tensor(ratios, dtype=torch.float64).log(),
    )
    objective = grpo(clip=Clip(low=1 - low, high=1 + high))
    flags = loss_terms(objective, piece, {}).flags
    assert has_flag(flags, CLIPPED_HIGH).tolist() == [True, False, False, False, False, False]
    assert has_flag(flags, CLIPPED_LOW).tolist() == [False, False, False, True, False, False]
    measured = update_diagnostics(objective, piece, flags, learner_version=0)
    found = {one.name: one.value for one in measured if not one.labels}
    assert found["policy/clip_frac"] == given_case.expect["clip_fraction"]
    assert found["policy/clip_frac_two_sided"] == given_case.expect["out_of_range_fraction"]


@pytest.mark.case("F132")
def test_the_proximal_policy_stays_frozen_over_the_epochs_of_a_batch():
    given_case = case("F132")
    before, after = given_case.input["behaviour_logprob"], given_case.input["new_logprob_after_update_1"]
    objective = grpo()
    inputs = credit_inputs([1.0, 0.0])

    def ratio_at(current):
        scores = {
            "proximal": torch.full((2,), before, dtype=torch.float64),
            "current": torch.full((2,), current, dtype=torch.float64),
        }
        batch = Batch(inputs=inputs, logprobs=scores)
        packed = pack(objective, batch, [0, 1], weights=weights_of(objective, batch))
        return run(objective, packed)[0].ratio[packed.streams.action_mask]

    assert ratio_at(before).tolist() == [given_case.expect["ratio_first_minibatch"]] * 2
    assert ratio_at(after).tolist() == pytest.approx([given_case.expect["ratio_second_epoch"]] * 2)


@pytest.mark.row("S150")
def test_the_score_function_gradient_is_the_analytic_one_on_a_bandit():
    """Three arms, softmax policy: the expected gradient over sampled arms is π_a(r_a − Σ π r), by enumeration."""
    rewards = torch.tensor([1.0, 0.25, -0.5], dtype=torch.float64)
    logits = torch.tensor([0.3, -0.2, 0.9], dtype=torch.float64, requires_grad=True)
    for baseline in (0.0, 0.7):
        expected = torch.zeros(3, dtype=torch.float64)
        for arm, chance in enumerate(logits.detach().softmax(0)):
            current = logits.log_softmax(0)[arm : arm + 1]
            piece = streams([float(rewards[arm]) - baseline], current=current)
            surrogate = policy_gradient(no_ratio(piece), piece).per_token
            expected += chance * torch.autograd.grad(surrogate.sum(), logits)[0]
        policy = logits.detach().softmax(0)
        analytic = policy * (rewards - (policy * rewards).sum())
        assert torch.allclose(expected, analytic, atol=1e-12)
