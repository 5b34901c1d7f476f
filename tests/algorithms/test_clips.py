"""Clips of the ratio: dual, of rows, of prefixes, and inside an outer bound that follows the entropy."""

import json
import math
from dataclasses import replace

import pytest
import torch

from rollwright.algorithms.composition import loss_terms
from rollwright.algorithms.controllers import controllers_of, restore_states, states_of
from rollwright.algorithms.credit.generalized_advantage import generalized_advantage
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import CLIPPED_HIGH, CLIPPED_LOW, DUAL_CLIP, OUTER_CLIP, has_flag
from rollwright.algorithms.presets import grpo
from rollwright.algorithms.ratios.prefix_ratios import prefix_ratio
from rollwright.algorithms.ratios.sequence_ratios import sequence_mean_ratio
from rollwright.algorithms.ratios.token_ratios import staleness_ratio, token_ratio
from rollwright.algorithms.surrogates.clipping import Clip
from rollwright.algorithms.surrogates.dual_clip import DualClip
from rollwright.algorithms.surrogates.outer_clip import AdaptiveUpperBound, OuterClip
from rollwright.algorithms.surrogates.prefix_clip import PrefixClip
from rollwright.algorithms.surrogates.sequence_clip import SequenceClip
from tests.algorithms.pieces import credit_inputs
from tests.algorithms.test_diagnostics import measured
from tests.algorithms.test_ratio_and_clip import clipped_at, streams
from tests.cases import case, method_fixture


def moved_by(log_ratios, advantages, **more):
    """One row whose current policy lies these log-ratios from the proximal one."""
    current = torch.tensor(log_ratios, dtype=torch.float64, requires_grad=True)
    return streams(advantages, current=current, proximal=[0.0] * len(log_ratios), **more)


def slope(value, piece):
    return torch.autograd.grad(value.sum(), piece.logprobs["current"])[0].tolist()


@pytest.mark.row("S149")
def test_ppo_takes_its_sign_from_a_value_baseline_and_clips_both_branches():
    """A critic that expected 0.5 of a success and of a failure, then the survey's four hand values."""
    values = torch.full((4,), 0.5, dtype=torch.float64)
    inputs = replace(
        credit_inputs([1.5, 1.5, -0.5, -0.5], lengths=[1, 1, 1, 1]),
        values={"predicted": values, "bootstrap": torch.zeros(4, dtype=torch.float64)},
    )
    advantages = generalized_advantage(inputs).advantages
    assert advantages.tolist() == [1.0, 1.0, -1.0, -1.0]
    piece = moved_by([math.log(ratio) for ratio in (1.5, 0.5, 0.5, 1.5)], advantages.tolist())
    found = Clip(low=0.8, high=1.28)(token_ratio(piece), piece)
    assert found.per_token.tolist() == pytest.approx([1.28, 0.5, -0.8, -1.5])
    assert slope(found.per_token, piece) == pytest.approx([0.0, 0.5, 0.0, -1.5])


@pytest.mark.case("F43")
def test_dual_clip_bounds_the_loss_of_negative_advantages_alone():
    given = case("F43")
    low, high = given.input["eps"]
    once, twice = (
        [clipped_at([ratio], float(advantage), clip) for ratio, advantage in given.input["points_ratio_advantage"]]
        for clip in (Clip(low=1 - low, high=1 + high), DualClip(low=1 - low, high=1 + high, dual=given.input["c"]))
    )
    assert [-value[0] for value, _, _ in once] == pytest.approx(given.expect["loss_single_clip"])
    assert [-value[0] for value, _, _ in twice] == pytest.approx(given.expect["loss_dual_clip"])
    assert twice[0][1] == [given.expect["gradient_at_50_minus1_dual"]]
    assert [bool(has_flag(flags, DUAL_CLIP)) for _, _, flags in twice] == [True, False, False, False]
    assert [bool(has_flag(flags, CLIPPED_HIGH)) for _, _, flags in twice] == [False, True, False, False]
    for dual in (1.0, 0.5, float("nan")):
        with pytest.raises(ObjectiveError, match="a ratio above 1"):
            DualClip(dual=dual)


def test_a_ratio_on_the_dual_bound_is_inside():
    piece = streams([-1.0], current=[0.0])
    ratio = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
    found = DualClip()(ratio, piece)
    assert torch.autograd.grad(found.per_token.sum(), ratio)[0].tolist() == [-1.0]
    assert not found.flags.any()


@pytest.mark.row("S166")
def test_gspo_clips_the_geometric_mean_of_a_row():
    """Tokens at 1.5, 1 and 0.6 have the mean ratio 0.9655: the row is inside though two of its tokens are not."""
    log_ratios = [math.log(ratio) for ratio in (1.5, 1.0, 0.6)]
    piece = moved_by([*log_ratios, math.log(9.0)], [1.0] * 4, mask=[1, 1, 1, 0])
    ratio = sequence_mean_ratio(piece)
    assert ratio[:3].tolist() == pytest.approx([(1.5 * 1.0 * 0.6) ** (1 / 3)] * 3)
    inside = SequenceClip(low=0.9, high=1.1)(ratio, piece)
    assert not inside.flags.any()
    assert slope(inside.per_token / 3, piece) == pytest.approx([0.9654894 / 3] * 3 + [0.0], rel=1e-6)
    clipped = SequenceClip(low=0.9, high=1.1)(sequence_mean_ratio(moved_by([0.2] * 4, [1.0] * 4)), piece)
    assert has_flag(clipped.flags, CLIPPED_HIGH)[:3].all()
    assert clipped.per_token[:3].tolist() == pytest.approx([1.1] * 3)


def test_a_row_surrogate_refuses_advantages_that_differ_within_a_row_or_averages_them():
    piece = moved_by([0.0] * 3, [1.0, 0.0, 7.0], mask=[1, 1, 0])
    with pytest.raises(ObjectiveError, match=r"row 0 of the piece has advantages from 0\.0 to 1\.0"):
        SequenceClip()(sequence_mean_ratio(piece), piece)
    averaged = SequenceClip(advantage="mean_over_row")(sequence_mean_ratio(piece), piece)
    assert averaged.per_token.tolist() == pytest.approx([0.5, 0.5, 0.0])


@pytest.mark.row("S168")
def test_a_prefix_ratio_corrects_the_prefix_and_not_what_follows():
    """Two binary actions, the second one from another policy, reward a1·a2: gradient in the logit of a1."""
    given = method_fixture("M38.b").input
    p1, target, behavior = given["p1"], given["target_p2"], given["behaviour_p2"]
    wide = PrefixClip(low=20.0, high=20.0, dual=None)

    def expected_gradient(credit_of_first):
        logit = torch.zeros((), dtype=torch.float64, requires_grad=True)
        total = torch.zeros((), dtype=torch.float64)
        for first, second in ((a, b) for a in (0, 1) for b in (0, 1)):
            chance = (p1 if first else 1 - p1) * (behavior if second else 1 - behavior)
            sampled = torch.tensor([p1 if first else 1 - p1, behavior if second else 1 - behavior]).double().log()
            now = torch.nn.functional.logsigmoid(logit if first else -logit)
            then = torch.tensor(target if second else 1 - target, dtype=torch.float64).log()
            piece = streams([credit_of_first(first, second), 0.0], current=torch.stack([now, then]), proximal=sampled)
            piece = replace(piece, logprobs={"current": torch.stack([now, then]), "proximal": sampled})
            (gradient,) = torch.autograd.grad(wide(prefix_ratio(piece), piece).per_token.sum(), logit)
            total += chance * gradient
        return float(total)

    assert expected_gradient(lambda a1, a2: float(a1 * a2)) == pytest.approx(0.05)
    assert expected_gradient(lambda a1, a2: target * a1) == pytest.approx(0.2)


@pytest.mark.row("S168")
@pytest.mark.parametrize("drift", [0.01, -0.01, 3.0, -3.0])
def test_ten_thousand_tokens_overflow_nothing(drift):
    count = 10_000
    piece = moved_by([drift] * count, [1.0, -1.0] * (count // 2))
    piece = replace(piece, logprobs={name: scores.float() for name, scores in piece.logprobs.items()})
    ratio = prefix_ratio(piece)
    found = PrefixClip()(ratio, piece)
    assert ratio.isfinite().all()
    assert found.per_token.isfinite().all()
    (gradient,) = torch.autograd.grad(found.per_token.sum(), piece.logprobs["current"])
    assert gradient.isfinite().all()
    if drift > 0:
        assert has_flag(found.flags, CLIPPED_HIGH)[100::2].all()
        assert has_flag(found.flags, DUAL_CLIP)[101::2].all()
    else:
        assert has_flag(found.flags, CLIPPED_LOW)[101::2].all()


def test_the_prefix_band_counts_action_tokens_and_leaves_gaps_out():
    dense = moved_by([0.02, 0.1, -0.3], [1.0] * 3)
    gapped = moved_by([0.02, 5.0, 0.1, 5.0, -0.3], [1.0] * 5, mask=[1, 0, 1, 0, 1])
    clip = PrefixClip()
    one, other = (clip(prefix_ratio(piece), piece) for piece in (dense, gapped))
    assert torch.equal(other.per_token[gapped.action_mask], one.per_token)
    assert torch.equal(other.flags[gapped.action_mask], one.flags)


def test_the_dual_bound_of_a_prefix_can_be_off():
    piece = moved_by([0.5], [-1.0])
    ratio = prefix_ratio(piece)
    assert PrefixClip()(ratio, piece).per_token.tolist() == pytest.approx([-math.exp(0.05)])
    assert PrefixClip(dual=None)(ratio, piece).per_token.tolist() == pytest.approx([-math.exp(0.5)])


@pytest.mark.row("S171")
def test_decoupled_ppo_weighs_by_proximal_over_behavior_and_clips_current_over_proximal():
    objective = replace(
        grpo(clip=Clip(low=0.8, high=1.2)),
        correction=staleness_ratio,
        needs=frozenset({"behavior", "proximal"}),
    )
    fixture = method_fixture("M69.a")
    piece = streams(
        fixture.input["A"],
        behavior=fixture.input["beh"],
        proximal=fixture.input["prox"],
        current=torch.tensor(fixture.input["cur"], dtype=torch.float64, requires_grad=True),
    )
    piece = replace(piece, token_weights=torch.ones(3, dtype=torch.float64))
    terms = loss_terms(objective, piece, {})
    assert (-terms.terms["policy_gradient"]).tolist() == pytest.approx(fixture.expect["J"])
    assert slope(-terms.loss, piece) == pytest.approx(fixture.expect["g"])
    same = streams([1.0, -1.0], **dict.fromkeys(("behavior", "proximal", "current"), [-0.3, -1.7]))
    equal = loss_terms(objective, same, {})
    assert equal.correction.tolist() == [1.0, 1.0]
    assert equal.ratio.tolist() == [1.0, 1.0]


OUTER = OuterClip(low=0.8, high=1.3, outer_low=0.3, outer_high=3.0)


@pytest.mark.row("S220")
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_ratios_beyond_the_outer_bound_are_counted_apart_and_do_not_enter_the_loss(advantage):
    ratios = [0.1, 0.31, 0.5, 1.0, 2.0, 2.9, 4.0, 400.0]
    value, gradient, flags = clipped_at(ratios, advantage, OUTER)
    is_outside = has_flag(flags, OUTER_CLIP).tolist()
    assert is_outside == [ratio < 0.3 or ratio > 3.0 for ratio in ratios]
    is_clipped = has_flag(flags, CLIPPED_HIGH | CLIPPED_LOW).tolist()
    assert not any(one and other for one, other in zip(is_outside, is_clipped, strict=True))
    assert all(g == 0.0 for g, outside in zip(gradient, is_outside, strict=True) if outside)
    # The value no longer depends on how far the ratio has gone.
    assert value[-1] == value[-2]
    assert gradient[3] == advantage
    piece = moved_by([math.log(ratio) for ratio in ratios], [advantage] * 8)
    found = measured(replace(grpo(), surrogate=OUTER), piece)
    assert found["policy/clip_frac side=outer"] == 3 / 8
    assert (found["policy/clip_frac side=high"], found["policy/clip_frac side=low"]) == (
        (2 / 8, 0.0) if advantage > 0 else (0.0, 2 / 8)
    )


def test_the_outer_bound_takes_the_gradient_that_ppo_leaves_on_the_adverse_side():
    ratios = [0.1, 4.0]
    assert clipped_at(ratios, -1.0, Clip(low=0.8, high=1.3))[1] == pytest.approx([0.0, -4.0])
    assert clipped_at(ratios, -1.0, OUTER)[1] == [0.0, 0.0]
    assert clipped_at(ratios, 1.0, Clip(low=0.8, high=1.3))[1] == pytest.approx([0.1, 0.0])
    assert clipped_at(ratios, 1.0, OUTER)[1] == [0.0, 0.0]


def bound(low: float | None = 0.8, step: float | None = 0.02, largest: float | None = 0.03):
    return AdaptiveUpperBound(low=low, step=step, largest=largest)


@pytest.mark.row("S219")
def test_the_upper_bound_follows_the_entropy_inside_its_limits_and_resumes():
    fixture = method_fixture("M64.a")
    adaptive = bound()
    objective = replace(grpo(), surrogate=Clip(low=0.8, high=adaptive))
    ratio = [1.0 / 0.8 + 0.025]
    moved = []
    for entropy in fixture.input["H"]:
        is_clipped = bool(has_flag(clipped_at(ratio, 1.0, objective.surrogate)[2], CLIPPED_HIGH))
        assert is_clipped == (adaptive.widening < 0.025)
        (controller,) = controllers_of(objective).values()
        controller.observe({"entropy/full": entropy, "policy/loss": 1.0})
        moved.append(adaptive.widening)
        assert 1.25 <= controller.value() <= 1.25 + 0.03
        assert adaptive.is_saturated == (adaptive.widening == 0.03)
        saved = json.loads(json.dumps(states_of(objective)))
        fresh = bound()
        restore_states(replace(objective, surrogate=Clip(low=0.8, high=fresh)), saved)
        assert fresh.value() == adaptive.value()
    assert moved == pytest.approx(fixture.expect["k"])


def test_an_entropy_on_target_or_unmeasured_moves_nothing():
    adaptive = bound(largest=1.0)
    adaptive.observe({"entropy/full": 0.2})
    for entropy in (0.3, float("nan"), float("inf")):
        adaptive.observe({"entropy/full": entropy})
        assert adaptive.widening == 0.02
    with pytest.raises(ObjectiveError, match="follows the metric 'entropy/full'"):
        adaptive.observe({"policy/loss": 1.0})


@pytest.mark.parametrize("left_out", ["low", "step", "largest"])
def test_the_controller_has_no_number_that_was_not_told(left_out):
    with pytest.raises(ObjectiveError, match=f"{left_out} has no default: MAI-Thinking-1"):
        bound(**{left_out: None})


@pytest.mark.parametrize("numbers", [{"low": 0.0}, {"low": 1.5}, {"step": 0.0}, {"largest": -1.0}])
def test_a_controller_that_controls_nothing_is_refused(numbers):
    with pytest.raises(ObjectiveError, match="step is above 0"):
        bound(**numbers)


def test_a_state_outside_the_limits_is_refused():
    with pytest.raises(ObjectiveError, match="lies in 0 to 0.03"):
        bound().restore({"widening": 0.5})
