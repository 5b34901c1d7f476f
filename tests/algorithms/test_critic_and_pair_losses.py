"""Losses of critics, and of preference pairs."""

import math
from dataclasses import replace

import pytest
import torch

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.masking import clean_streams
from rollwright.algorithms.surrogates.pair_losses import PairLogprobs, dpo_loss, implicit_margins, rpo_loss
from rollwright.algorithms.surrogates.value_losses import (
    ClippedValueLoss,
    HuberValueLoss,
    ValueBins,
    clipped_value_loss,
    hl_gauss_loss,
    huber_value_loss,
)
from tests.algorithms.test_ratio_and_clip import streams


def vector(*values, **more):
    return torch.tensor(values, dtype=torch.float64, **more)


def check_slopes(loss, at):
    """Central differences of a sum of losses in every entry."""
    start = at.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(loss(start).sum(), start)
    step = 1e-6
    for place in range(at.numel()):
        nudge = torch.zeros(at.numel(), dtype=torch.float64)
        nudge[place] = step
        nudge = nudge.view_as(at)
        found = float((loss(at + nudge) - loss(at - nudge)).sum() / (2 * step))
        assert found == pytest.approx(float(slopes.flatten()[place]), abs=1e-6)
    return slopes


VALUES, BEFORE, TARGETS = vector(0.8, 0.2, 0.55, 0.9, -30.0), vector(*[0.5] * 5), vector(1.0, 1.0, 0.0, 0.0, 2.0)


def test_a_value_gains_nothing_by_leaving_its_reach():
    slopes = check_slopes(lambda values: clipped_value_loss(values, BEFORE, TARGETS), VALUES)
    # 0.8 has moved 0.3 toward its target of 1: held at 0.7, without a gradient. 0.2 moved away and is pulled back.
    assert slopes.tolist() == pytest.approx([0.0, -0.8, 0.55, 0.9, -32.0])


def test_huber_has_a_slope_of_at_most_delta():
    slopes = check_slopes(lambda values: huber_value_loss(values, TARGETS, delta=10.0), VALUES)
    assert slopes.tolist() == pytest.approx([-0.2, -0.8, 0.55, 0.9, -10.0])
    assert huber_value_loss(vector(32.0), vector(2.0)).tolist() == [10.0 * (30.0 - 5.0)]


@pytest.mark.parametrize("loss", [ClippedValueLoss(reach=0.2), HuberValueLoss()])
def test_value_losses_of_a_piece_read_no_masked_value(loss):
    values = {"current": vector(0.8, torch.nan, requires_grad=True), "previous": vector(0.5, torch.inf)}
    piece = replace(streams([0.0, 0.0], mask=[1, 0]), values={**values, "target": vector(1.0, -torch.inf)})
    clean = clean_streams(piece, frozenset({"values"})).streams
    found = loss(clean)
    assert found[1] == 0.0
    (gradient,) = torch.autograd.grad(found.sum(), values["current"])
    assert gradient.isfinite().all()
    assert gradient[1] == 0.0
    with pytest.raises(ObjectiveError, match="Add 'values'"):
        loss(replace(piece, values={}))


BINS = ValueBins(low=-1.0, high=2.0, num_bins=51)


def test_a_histogram_of_a_return_has_its_mean_and_all_its_mass():
    returns = vector(0.0, 0.5, 1.0, -0.7)
    histogram = BINS.histogram(returns)
    assert histogram.sum(-1).tolist() == pytest.approx([1.0] * 4)
    assert BINS.expected(histogram.log()).tolist() == pytest.approx(returns.tolist(), abs=1e-3)
    # Returns outside are held at the ends.
    assert torch.equal(BINS.histogram(vector(9.0)), BINS.histogram(vector(2.0)))


def test_the_histogram_loss_pulls_the_prediction_to_the_histogram():
    logits = torch.randn(3, 51, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    targets = vector(0.1, 1.0, -5.0)
    slopes = check_slopes(lambda moved: hl_gauss_loss(moved, targets, bins=BINS), logits)
    assert torch.allclose(slopes, logits.softmax(-1) - BINS.histogram(targets), atol=1e-12)
    least = hl_gauss_loss(BINS.histogram(targets).log().clamp(min=-700.0), targets, bins=BINS)
    assert (least <= hl_gauss_loss(logits, targets, bins=BINS)).all()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: clipped_value_loss(vector(1.0), vector(1.0, 2.0), vector(1.0)), r"previous have shape \(2,\)"),
        (lambda: huber_value_loss(vector(1.0), vector(1.0, 2.0)), r"targets have shape \(2,\)"),
        (lambda: huber_value_loss(vector(1.0), vector(1.0), delta=0.0), "above 0"),
        (lambda: hl_gauss_loss(torch.zeros(1, 7), vector(1.0), bins=BINS), "one row of 51 bins"),
        (lambda: ValueBins(low=1.0, high=1.0), "no width"),
        (lambda: pairs(chosen=vector(1.0)), "one a pair"),
        (lambda: dpo_loss(pairs(), beta=0.0), "beta = 0.0"),
        (lambda: rpo_loss(pairs(), vector(1.0), beta=0.1), "for \\(2,\\) pairs"),
        (lambda: rpo_loss(pairs(), vector(1.0, 1.0), beta=0.1, reward_scale=0.0), "reward_scale = 0.0"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(call, match):
    with pytest.raises(ObjectiveError, match=match):
        call()


def pairs(**more):
    """Two pairs: the policy has moved to the chosen response in the first one, away from it in the second."""
    given = {
        "chosen": vector(-3.0, -5.0),
        "rejected": vector(-6.0, -4.0),
        "reference_chosen": vector(-4.0, -4.5),
        "reference_rejected": vector(-5.0, -4.2),
    }
    return PairLogprobs(**{**given, **more})


@pytest.mark.row("S180")
def test_dpo_has_the_loss_and_the_gradient_of_its_closed_form_on_two_pairs():
    """Margins 0.1·(1 + 1) = 0.2 and 0.1·(−0.5 − 0.2) = −0.07."""
    margins = [0.2, -0.07]
    given = pairs(chosen=pairs().chosen.requires_grad_(), rejected=pairs().rejected.requires_grad_())
    loss = dpo_loss(given, beta=0.1)
    assert implicit_margins(given, beta=0.1).tolist() == pytest.approx(margins)
    assert loss.tolist() == pytest.approx([math.log(1 + math.exp(-margin)) for margin in margins])
    better, worse = torch.autograd.grad(loss.sum(), (given.chosen, given.rejected))
    due = [-0.1 / (1 + math.exp(margin)) for margin in margins]
    assert better.tolist() == pytest.approx(due)
    assert worse.tolist() == pytest.approx([-one for one in due])
    check_slopes(lambda chosen: dpo_loss(pairs(chosen=chosen), beta=0.1), pairs().chosen)


@pytest.mark.row("S180")
def test_reference_scores_are_constants_whether_stored_or_computed_again():
    """A tiny policy scores two responses; the reference is its copy, kept as numbers or run again with its graph."""
    logits = torch.randn(4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    frozen = logits.clone().requires_grad_()
    taken = torch.tensor([[0, 1, 2, 3], [4, 3, 2, 1]])

    def scores(table):
        return table.log_softmax(-1).gather(-1, taken.t()).sum(0)

    policy = (logits + 0.3 * torch.eye(4, 5, dtype=torch.float64)).requires_grad_()
    losses = []
    for reference in (scores(frozen).detach().clone(), scores(frozen)):
        now = scores(policy)
        pair = PairLogprobs(
            chosen=now[:1], rejected=now[1:], reference_chosen=reference[:1], reference_rejected=reference[1:]
        )
        losses.append(dpo_loss(pair, beta=0.5))
    assert torch.equal(losses[0], losses[1])
    assert torch.autograd.grad(losses[1].sum(), frozen, allow_unused=True)[0] is None


@pytest.mark.parametrize(("scale", "beta"), [(1.0, 0.1), (3.0, 0.1), (1.0, 0.5)])
def test_rpo_is_the_divergence_of_two_chances_at_any_scale_and_strength(scale, beta):
    """By hand: margins β·2 and −β·0.7, aims η·1 and η·0.25."""
    gaps = vector(1.0, 0.25)

    def chance(logit):
        return 1 / (1 + math.exp(-logit))

    due = []
    for margin, gap in zip((2 * beta, -0.7 * beta), gaps.tolist(), strict=True):
        p, q = chance(scale * gap), chance(margin)
        due.append(p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q)))
    assert rpo_loss(pairs(), gaps, beta=beta, reward_scale=scale).tolist() == pytest.approx(due)
    check_slopes(lambda chosen: rpo_loss(pairs(chosen=chosen), gaps, beta=beta, reward_scale=scale), pairs().chosen)
    # Nothing is left to learn where the margin is the scaled gap.
    settled = pairs(chosen=pairs().chosen + (scale * gaps - implicit_margins(pairs(), beta=beta)) / beta)
    assert rpo_loss(settled, gaps, beta=beta, reward_scale=scale).tolist() == pytest.approx([0.0, 0.0], abs=1e-12)


@pytest.mark.parametrize("source", ["fixed", "fresh"])
def test_one_objective_learns_from_fixed_pairs_and_from_fresh_ones(source):
    """A policy over four responses: both ways end at log-ratios of η/β times the differences of reward."""
    rewards, beta, scale = vector(0.0, 0.3, 0.6, 1.0), 0.5, 1.0
    reference = vector(0.0, 0.2, -0.1, 0.3).log_softmax(-1)
    logits = reference.clone().requires_grad_()
    generator = torch.Generator().manual_seed(0)
    fixed = torch.tensor([[1, 0], [2, 1], [3, 2], [3, 0]])
    for _ in range(1500):
        scores = logits.log_softmax(-1)
        taken = (
            fixed
            if source == "fixed"
            else torch.multinomial(scores.exp().expand(8, 4).detach(), 2, generator=generator)
        )
        first, second = taken.unbind(-1)
        pair = PairLogprobs(
            chosen=scores[first],
            rejected=scores[second],
            reference_chosen=reference[first],
            reference_rejected=reference[second],
        )
        loss = rpo_loss(pair, rewards[first] - rewards[second], beta=beta, reward_scale=scale).mean()
        (gradient,) = torch.autograd.grad(loss, logits)
        logits = (logits - 2.0 * gradient).detach().requires_grad_()
    moved = (logits - logits[0] - reference + reference[0]).detach()
    assert moved.tolist() == pytest.approx((rewards * scale / beta).tolist(), abs=1e-3)


def test_losses_of_pairs_are_finite_at_any_distance():
    far = pairs(chosen=vector(-1e5, 1e5), rejected=vector(1e5, -1e5))
    assert dpo_loss(far, beta=1.0).isfinite().all()
    assert rpo_loss(far, vector(100.0, -100.0), beta=1.0, reward_scale=50.0).isfinite().all()
