"""Surrogates that weigh, gate or drop tokens instead of clipping them."""

import math
from dataclasses import replace

import pytest
import torch

from rollwright.algorithms.composition import loss_terms
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.algorithms.flags import CLIPPED_HIGH, CLIPPED_LOW, TOKEN_MASK, has_flag
from rollwright.algorithms.objective import Regularizer
from rollwright.algorithms.presets import bypassing_proximal, grpo, with_regularizer
from rollwright.algorithms.ratios.sequence_ratios import sequence_product_ratio
from rollwright.algorithms.ratios.token_ratios import no_ratio, token_ratio
from rollwright.algorithms.surrogates.binary_drift import BinaryDrift, squared_drift
from rollwright.algorithms.surrogates.cispo import Aipo, Cispo
from rollwright.algorithms.surrogates.clipping import Clip
from rollwright.algorithms.surrogates.geometric_clip import GeometricMeanClip
from rollwright.algorithms.surrogates.importance_mask import DoubleSidedMask, MaskedImportance
from rollwright.algorithms.surrogates.likelihood import policy_gradient
from rollwright.algorithms.surrogates.mass_gate import MassAdaptiveGate
from rollwright.algorithms.surrogates.mirror_descent import MirrorDescent
from rollwright.algorithms.surrogates.sequence_weights import Topr, Vespo
from rollwright.algorithms.surrogates.signed_bounds import SideCounts, SignedBounds, count_sides
from rollwright.algorithms.surrogates.soft_gate import SoftGate
from tests.algorithms.test_ratio_and_clip import clipped_at, streams
from tests.cases import case, method_fixture


def at(ratios, advantages, surrogate):
    """Value, gradient in the log-probability, and flags; each token with its advantage, on-bound ratios exact."""
    current = torch.tensor(ratios, dtype=torch.float64).log().requires_grad_()
    zeros = [0.0] * len(ratios)
    piece = streams(advantages, current=current, proximal=zeros, behavior=zeros)
    exact = torch.tensor(ratios, dtype=torch.float64) * torch.exp(current - current.detach())
    found = surrogate(exact, piece)
    return found.per_token.tolist(), torch.autograd.grad(found.per_token.sum(), current)[0].tolist(), found.flags


def flagged(flags, bit):
    return has_flag(flags, bit).tolist()


@pytest.mark.case("F46")
def test_cispo_keeps_the_gradient_of_every_token_at_a_held_weight():
    given = case("F46")
    surrogate = Cispo(high=given.input["max_weight"])
    _, gradient, flags = at(given.input["ratios"], given.input["advantages"], surrogate)
    assert [-slope for slope in gradient] == pytest.approx(given.expect["d_loss_d_logp"])
    assert flagged(flags, CLIPPED_HIGH) == [False, False, True]
    assert not flags[1].any()


@pytest.mark.row("S167")
def test_cispo_has_a_gradient_where_ppo_has_none_and_its_weight_is_detached():
    assert at([1.5], [1.0], Clip(high=1.28))[1] == [0.0]
    assert at([1.5], [1.0], Cispo(high=1.28))[1] == pytest.approx([1.28])
    # Inside the bounds too: a weight that were differentiated would add A·c·ρ.
    assert at([1.1], [1.0], Cispo(high=1.28))[1] == pytest.approx([1.1])
    ratio = torch.tensor([1.1], dtype=torch.float64, requires_grad=True)
    current = torch.tensor([-0.5], dtype=torch.float64, requires_grad=True)
    found = Cispo(high=1.28)(ratio, streams([1.0], current=torch.zeros(1)))
    assert not found.per_token.requires_grad
    found = Cispo(high=1.28)(ratio, replace(streams([1.0]), logprobs={"current": current}))
    assert torch.autograd.grad(found.per_token.sum(), ratio, allow_unused=True)[0] is None


def test_aipo_holds_weights_above_alone():
    _, gradient, flags = at([0.01, 2.0, 9.0], [1.0] * 3, Aipo(cap=2.0))
    assert gradient == pytest.approx([0.01, 2.0, 2.0])
    assert flagged(flags, CLIPPED_HIGH) == [False, False, True]


def test_a_policy_gradient_with_a_weight_is_the_correction_times_the_surrogate():
    fixture = method_fixture("M48.a")
    current = torch.tensor(fixture.input["logp_cur"], dtype=torch.float64)
    behavior = current - torch.tensor(fixture.input["rho"], dtype=torch.float64).log()
    piece = streams([float(fixture.input["A"])] * 5, current=current.requires_grad_(), behavior=behavior)
    objective = replace(
        bypassing_proximal(grpo()),
        ratio=no_ratio,
        surrogate=policy_gradient,
        correction=TruncatedRatio(cap=fixture.input["C"], of="current"),
    )
    loss = loss_terms(objective, replace(piece, token_weights=torch.ones(5, dtype=torch.float64)), {}).loss
    (gradient,) = torch.autograd.grad(loss, piece.logprobs["current"])
    assert (-gradient).tolist() == pytest.approx(fixture.expect["g"])


def test_masked_importance_drops_what_is_outside_and_keeps_what_is_on_a_bound():
    _, gradient, flags = at([0.4, 0.5, 5.0, 6.0], [1.0, 1.0, -1.0, -1.0], MaskedImportance())
    assert gradient == pytest.approx([0.0, 0.5, -5.0, 0.0])
    assert flagged(flags, TOKEN_MASK) == [True, False, False, True]
    assert flagged(flags, CLIPPED_LOW) == [True, False, False, False]
    assert flagged(flags, CLIPPED_HIGH) == [False, False, False, True]


def test_the_pull_of_masked_importance_acts_on_tokens_without_advantage():
    _, gradient, _ = at([0.8, 1.0, 1.25], [0.0] * 3, MaskedImportance(kl_tau=0.1))
    assert gradient == pytest.approx([-0.8 * 0.1 * math.log(0.8), 0.0, -1.25 * 0.1 * math.log(1.25)])


def test_the_double_sided_mask_is_strict_on_both_sides_and_for_both_signs():
    surrogate = DoubleSidedMask(below=0.5, above=1.0)
    for advantage in (1.0, -1.0):
        _, gradient, flags = at([0.5, 0.51, 1.99, 2.0], [advantage] * 4, surrogate)
        assert gradient == pytest.approx([0.0, 0.51 * advantage, 1.99 * advantage, 0.0])
        assert flagged(flags, TOKEN_MASK) == [True, False, False, True]


def test_a_dropped_token_stays_in_the_denominator():
    objective = replace(bypassing_proximal(grpo(weights=TokenMean())), surrogate=DoubleSidedMask())
    piece = streams([1.0, 1.0], behavior=[-1.0, -9.0], current=torch.tensor([-1.0, -1.0]).requires_grad_())
    terms = loss_terms(objective, piece, {})
    assert terms.keep.all()
    assert float(terms.loss.detach()) == pytest.approx(-0.5)
    assert flagged(terms.flags, TOKEN_MASK) == [False, True]


def test_binary_drift_looks_at_probabilities_and_not_at_ratios():
    """A ratio of 10 between rare tokens is a small step; one of 1.5 between likely ones is a large one."""
    now, before = torch.tensor([0.01, 0.9]).double(), torch.tensor([0.001, 0.6]).double()
    piece = streams([1.0, 1.0], current=now.log(), behavior=before.log())
    found = BinaryDrift()(now / before, piece)
    assert flagged(found.flags, TOKEN_MASK) == [False, True]
    assert found.per_token.tolist() == pytest.approx([10.0, 0.0])
    # On the adverse side nothing is dropped.
    adverse = BinaryDrift()(now / before, replace(piece, advantages=-piece.advantages))
    assert not adverse.flags.any()


def test_the_drift_term_is_felt_by_rows_without_advantage():
    drift = Regularizer(component="drift", coefficient=1e-3, per_token=squared_drift, weights=TokenMean())
    objective = replace(bypassing_proximal(grpo()), surrogate=BinaryDrift())
    objective = with_regularizer(objective, drift, needs=frozenset({"behavior"}))
    current = torch.tensor([-1.0, -3.0], dtype=torch.float64, requires_grad=True)
    piece = streams([0.0, 0.0], behavior=[-1.0, -2.0], current=current)
    loss = loss_terms(objective, piece, {"drift": torch.full((2,), 0.5, dtype=torch.float64)}).loss
    assert float(loss.detach()) == pytest.approx(0.5e-3)
    assert torch.autograd.grad(loss, current)[0].tolist() == pytest.approx([0.0, 0.5e-3 * 2 * -1.0])


RATIOS = [0.1, 0.2, 0.6, 1.0, 2.0, 5.0, 6.0]


@pytest.mark.row("S221")
@pytest.mark.parametrize("outside", ["mask", "clip"])
@pytest.mark.parametrize("moved", ["positive_low", "positive_high", "negative_low", "negative_high"])
def test_each_of_four_bounds_acts_on_its_sign_and_side_alone(moved, outside):
    start = SignedBounds(outside=outside)
    assert (start.positive_low, start.positive_high, start.negative_low, start.negative_high) == (0.2, 5.0, 0.2, 5.0)
    narrow = replace(start, **{moved: 0.7 if moved.endswith("low") else 1.5})
    advantages = [1.0] * len(RATIOS) + [-1.0] * len(RATIOS) + [0.0]
    ratios = [*RATIOS, *RATIOS, 40.0]
    piece = streams(advantages, current=[0.0] * len(ratios))
    counts = {}
    for name, surrogate in (("start", start), ("narrow", narrow)):
        found = surrogate(torch.tensor(ratios, dtype=torch.float64), piece)
        counts[name] = count_sides(found.flags, piece)
    assert counts["start"] == SideCounts(positive_low=1, positive_high=1, negative_low=1, negative_high=1)
    assert counts["narrow"] == replace(counts["start"], **{moved: 3})


def test_outside_a_signed_band_a_token_is_dropped_or_held():
    assert at(RATIOS, [1.0] * 7, SignedBounds())[1] == pytest.approx([0.0, 0.2, 0.6, 1.0, 2.0, 5.0, 0.0])
    held = at(RATIOS, [-1.0] * 7, SignedBounds(outside="clip"))[1]
    assert held == pytest.approx([-0.2, -0.2, -0.6, -1.0, -2.0, -5.0, -5.0])


def test_signed_bounds_may_follow_a_controller():
    class Wide:
        def observe(self, metrics):
            pass

        def value(self):
            return 7.0

        def state(self):
            return {}

        def restore(self, state):
            pass

    assert at([6.0], [1.0], SignedBounds(positive_high=Wide()))[1] == pytest.approx([6.0])
    assert at([6.0], [-1.0], SignedBounds(positive_high=Wide()))[1] == [0.0]


def rows(log_ratios, advantages):
    """Rows of two tokens that share their row's log-ratio."""
    current = torch.tensor([half for one in log_ratios for half in (one / 2, one / 2)], dtype=torch.float64)
    piece = streams([a for a in advantages for _ in range(2)], current=current, proximal=[0.0] * len(current))
    return replace(piece, row_offsets=torch.arange(len(log_ratios) + 1) * 2)


def test_topr_weighs_bad_rows_by_their_whole_ratio_and_good_ones_by_one():
    piece = rows([math.log(0.3), math.log(1.7), math.log(0.3)], [-1.0, -1.0, 1.0])
    found = Topr()(sequence_product_ratio(piece), piece)
    weights = (found.per_token / (piece.advantages * piece.logprobs["current"])).tolist()
    assert weights == pytest.approx([0.3, 0.3, 1.0, 1.0, 1.0, 1.0])
    assert flagged(found.flags, CLIPPED_HIGH) == [False, False, True, True, False, False]


def test_the_weight_of_vespo_is_one_at_one_and_finite_at_any_ratio():
    piece = rows([0.0, 500.0, -500.0], [1.0, 1.0, -1.0])
    found = Vespo()
    weights = found.weights(sequence_product_ratio(piece), piece.advantages)
    assert weights[0] == 1.0
    assert weights[2] == 0.0
    # At the floor of log 1e-8 a bad row has exp(2 + 3·log 1e-8 − 2e-8).
    assert float(weights[4]) == pytest.approx(math.exp(2 - 2e-8) * 1e-24, rel=1e-6)
    # The largest weight stands at k/λ.
    ratios = torch.linspace(0.3, 3.0, 2701, dtype=torch.float64)
    for advantage, peak in ((1.0, 2 / 3), (-1.0, 3 / 2)):
        curve = found.weights(ratios, torch.full_like(ratios, advantage))
        assert float(ratios[curve.argmax()]) == pytest.approx(peak, abs=1e-3)


def test_gmpo_is_the_geometric_mean_of_what_the_clip_leaves():
    piece = streams([1.0, 1.0, 9.0], current=[0.02, 0.6, 5.0], proximal=[0.0] * 3, mask=[1, 1, 0])
    found = GeometricMeanClip()(token_ratio(piece), piece)
    assert found.per_token.tolist() == pytest.approx([math.exp(0.21), math.exp(0.21), 0.0])
    assert flagged(found.flags, CLIPPED_HIGH)[:2] == [False, True]


def test_the_bounds_of_gmpo_may_differ():
    piece = streams([1.0, -1.0, -1.0], current=[0.3, -0.3, 0.3], proximal=[0.0] * 3)
    one, other = GeometricMeanClip(log_clip=0.2), GeometricMeanClip(log_clip=0.2, log_clip_low=0.5)
    ratio = token_ratio(piece)
    assert one.clipped_log_ratios(ratio, piece.advantages).per_token.tolist() == pytest.approx([0.2, -0.2, 0.3])
    assert other.clipped_log_ratios(ratio, piece.advantages).per_token.tolist() == pytest.approx([0.2, -0.3, 0.3])


@pytest.mark.row("S170")
@pytest.mark.parametrize("advantage", [2.0, 0.05, -0.05, -2.0])
def test_the_gate_of_maspo_is_smooth_and_positive_at_all_ratios(advantage):
    gate = MassAdaptiveGate(gate="differentiated")
    grid = torch.linspace(1e-3, 20.0, 4001, dtype=torch.float64)
    piece = streams([advantage] * len(grid), proximal=[-2.0] * len(grid))
    ratio = grid.clone().requires_grad_()
    found = gate.gates(ratio, piece)
    (slope,) = torch.autograd.grad(found.sum(), ratio)
    values, slopes = found.detach(), slope
    assert (values > 0).all()
    assert (values <= 1).all()
    # No jump in value or slope: neighbours differ by no more than a smooth function allows.
    sigma = float(gate.widths(piece)[0])
    assert float(values.diff().abs().max()) <= 0.005 / sigma
    assert float(slopes.diff().abs().max()) <= 0.005 * 1.01 / sigma**2


def test_maspo_lets_rare_tokens_move_farther_and_bad_ones_less_far():
    gate = MassAdaptiveGate(gate="detached")
    piece = streams([1.0, 1.0, -1.0, 1e-9, 50.0], proximal=[math.log(p) for p in (0.01, 0.5, 0.5, 0.5, 1e-9)])
    rare, likely, bad, faint, unbounded = gate.widths(piece).tolist()
    assert rare > likely > bad
    assert faint == pytest.approx(0.5**-0.3 * 1.003)
    assert unbounded == 10.0


@pytest.mark.parametrize("gate", ["detached", "differentiated"])
def test_whether_the_gate_is_differentiated_is_a_choice(gate):
    _, gradient, _ = at([1.5], [1.0], MassAdaptiveGate(alpha=0.0, beta=0.0, gate=gate))
    still = math.exp(-0.125) * 1.5
    assert gradient == pytest.approx([still if gate == "detached" else still * (1 - 0.5 * 1.5)])


def test_the_soft_gate_fades_on_both_sides():
    for advantage in (1.0, -1.0):
        _, gradient, flags = at([0.01, 0.5, 1.0, 2.0, 12.0], [advantage] * 5, SoftGate())
        pushes = [abs(one) for one in gradient]
        assert pushes[2] == pytest.approx(1.0)
        assert pushes[0] < 0.01
        assert pushes[4] < 0.01
        assert not flags.any()


@pytest.mark.row("S182")
@pytest.mark.parametrize("tau", [0.5, 1.0])
def test_mirror_descent_regresses_and_pulls_back_to_the_policy_before_the_update(tau):
    descent = MirrorDescent(tau=tau)
    piece = rows([0.0, 0.0], [0.5, -0.5])
    for _ in range(200):
        current = piece.logprobs["current"].clone().requires_grad_()
        moved = replace(piece, logprobs={**piece.logprobs, "current": current})
        (gradient,) = torch.autograd.grad(descent(no_ratio(moved), moved).per_token.sum(), current)
        piece = replace(piece, logprobs={**piece.logprobs, "current": (current + 0.2 * gradient).detach()})
    # The optimum: the log-ratio of a row is its advantage over τ.
    moved = piece.logprobs["current"].view(2, 2).sum(-1)
    assert moved.tolist() == pytest.approx([0.5 / tau, -0.5 / tau], abs=1e-6)
    level = replace(piece, advantages=torch.zeros(4, dtype=torch.float64))
    current = level.logprobs["current"].clone().requires_grad_()
    level = replace(level, logprobs={**level.logprobs, "current": current})
    (gradient,) = torch.autograd.grad(descent(no_ratio(level), level).per_token.sum(), current)
    assert gradient[0] < 0 < gradient[2]


def test_a_clip_and_a_mask_differ_in_the_value_alone_where_both_are_outside():
    value, gradient, _ = clipped_at([6.0], 1.0, Clip(low=0.2, high=5.0))
    assert (value, gradient) == ([5.0], [0.0])
    assert at([6.0], [1.0], SignedBounds())[:2] == ([0.0], [0.0])
