"""What every surrogate promises: finite differences, an unchanged policy, masks, cuts, and its worked numbers."""

from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch

from rollwright.algorithms.composition import loss_terms
from rollwright.algorithms.corrections.correction import keep_all, no_correction
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.denominators.plain import ResponseMean
from rollwright.algorithms.objective import Objective, RatioFn, SurrogateFn, UpdateStage
from rollwright.algorithms.ratios.prefix_ratios import prefix_mean_ratio, prefix_ratio
from rollwright.algorithms.ratios.sequence_ratios import (
    sequence_mean_ratio,
    sequence_product_ratio,
    sequence_token_ratio,
)
from rollwright.algorithms.ratios.token_ratios import bypass_ratio, no_ratio, token_ratio
from rollwright.algorithms.surrogates.binary_drift import BinaryDrift
from rollwright.algorithms.surrogates.cispo import Aipo, Cispo
from rollwright.algorithms.surrogates.clipping import Clip
from rollwright.algorithms.surrogates.covariance import ClipCov, KlCov, clip_cov_stage, kl_cov_stage
from rollwright.algorithms.surrogates.dual_clip import DualClip
from rollwright.algorithms.surrogates.earl_gate import EarlGate, earl_gate_stage
from rollwright.algorithms.surrogates.geometric_clip import GeometricMeanClip
from rollwright.algorithms.surrogates.importance_mask import DoubleSidedMask, MaskedImportance
from rollwright.algorithms.surrogates.likelihood import policy_gradient
from rollwright.algorithms.surrogates.mass_gate import MassAdaptiveGate
from rollwright.algorithms.surrogates.mirror_descent import MirrorDescent
from rollwright.algorithms.surrogates.outer_clip import OuterClip
from rollwright.algorithms.surrogates.prefix_clip import PrefixClip
from rollwright.algorithms.surrogates.sequence_clip import SequenceClip
from rollwright.algorithms.surrogates.sequence_weights import Topr, Vespo
from rollwright.algorithms.surrogates.signed_bounds import SignedBounds
from rollwright.algorithms.surrogates.soft_gate import SoftGate
from rollwright.recipes.fixtures.adapter import Given
from rollwright.recipes.fixtures.adapters.surrogates import ADAPTERS
from rollwright.recipes.fixtures.comparison import differences
from tests.algorithms.pieces import Batch, credit_inputs, gradient_of, pack, run, weights_of
from tests.cases import method_fixtures

NUM_ROWS, LENGTHS, TAU = 4, [3, 1, 4, 2], 0.3


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A surrogate with a ratio that it takes."""

    surrogate: SurrogateFn
    ratio: RatioFn = token_ratio
    follows: str = "ratio"
    """What its gradient goes through: the ratio; `own`, the token's own part of it; `logprob`, as weights are held."""
    stages: tuple[UpdateStage, ...] = ()

    def objective(self):
        return Objective(
            name="subject",
            credit=center_within_group,
            ratio=self.ratio,
            keep=keep_all,
            correction=no_correction,
            surrogate=self.surrogate,
            weights=ResponseMean(),
            regularizers=(),
            needs=frozenset({"behavior", "proximal", "entropy"}),
            stages=self.stages,
        )


SUBJECTS = {
    "policy_gradient": Subject(surrogate=policy_gradient, ratio=no_ratio, follows="logprob"),
    "clip": Subject(surrogate=Clip(high=1.28)),
    "dual clip": Subject(surrogate=DualClip(dual=1.5)),
    "cispo": Subject(surrogate=Cispo(high=1.3), follows="logprob"),
    "aipo": Subject(surrogate=Aipo(cap=1.3), ratio=bypass_ratio, follows="logprob"),
    "gspo": Subject(surrogate=SequenceClip(low=0.8, high=1.2), ratio=sequence_mean_ratio),
    "gspo token": Subject(surrogate=Clip(), ratio=sequence_token_ratio, follows="own"),
    "ctpo": Subject(surrogate=PrefixClip(low=0.3, high=0.3, dual=0.5), ratio=prefix_ratio, follows="own"),
    "ctpo geometric": Subject(surrogate=PrefixClip(power=-0.5), ratio=prefix_mean_ratio, follows="own"),
    "sapo": Subject(surrogate=SoftGate()),
    "clip_cov": Subject(surrogate=ClipCov(), stages=(clip_cov_stage(share=0.3, low=0.0),)),
    "kl_cov": Subject(surrogate=KlCov(coefficient=0.5), stages=(kl_cov_stage(share=0.3),)),
    "topr": Subject(surrogate=Topr(), ratio=sequence_product_ratio, follows="logprob"),
    "masked importance": Subject(
        surrogate=MaskedImportance(low=0.7, high=1.5, kl_tau=0.1), ratio=bypass_ratio, follows="logprob"
    ),
    "double-sided": Subject(surrogate=DoubleSidedMask(above=0.5), ratio=bypass_ratio),
    "binary drift": Subject(surrogate=BinaryDrift(low=0.05, high=0.05), ratio=bypass_ratio),
    "outer clip": Subject(surrogate=OuterClip(low=0.8, high=1.3, outer_low=0.6, outer_high=1.6)),
    "signed, mask": Subject(surrogate=SignedBounds(positive_high=1.4, negative_low=0.7), ratio=bypass_ratio),
    "signed, clip": Subject(
        surrogate=SignedBounds(positive_high=1.4, negative_low=0.7, outside="clip"),
        ratio=bypass_ratio,
        follows="logprob",
    ),
    "vespo": Subject(surrogate=Vespo(), ratio=sequence_product_ratio, follows="logprob"),
    "gmpo": Subject(surrogate=GeometricMeanClip(log_clip=0.2, log_clip_low=0.3)),
    "maspo": Subject(surrogate=MassAdaptiveGate(sigma_base=0.3, gate="differentiated")),
    "mirror descent": Subject(surrogate=MirrorDescent(tau=TAU), ratio=no_ratio),
    "earl": Subject(surrogate=EarlGate(surrogate=Clip()), stages=(earl_gate_stage(share=0.5),)),
}
subjects = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS.keys())


def batch(*, unchanged=False, seed=0, rewards=(1.0, 0.0, 0.7, 0.1)):
    """Four rows of two groups, with scores that moved by up to half a nat and more."""
    generator = torch.Generator().manual_seed(seed)
    count = sum(LENGTHS)
    base = -0.2 - 2.0 * torch.rand(count, generator=generator, dtype=torch.float64)
    behavior, proximal, current = (
        base if unchanged else base + 0.5 * torch.randn(count, generator=generator, dtype=torch.float64)
        for _ in range(3)
    )
    return Batch(
        inputs=credit_inputs(rewards, groups=[0, 0, 1, 1], lengths=LENGTHS),
        logprobs={"behavior": behavior, "proximal": proximal, "current": current},
        entropy=torch.rand(count, generator=generator, dtype=torch.float64),
    )


def whole(objective, given, **layout):
    return pack(objective, given, range(NUM_ROWS), weights=weights_of(objective, given), **layout)


def on_actions(found, piece):
    return torch.where(piece.action_mask, found.per_token, 0.0)


def with_current(piece, current):
    return replace(piece, logprobs={**piece.logprobs, "current": current})


@pytest.mark.parametrize("method", ADAPTERS)
def test_the_library_gives_the_worked_numbers(method):
    for fixture in method_fixtures(method):
        given = ADAPTERS[method].run(Given(fixture=fixture.id, values=fixture.input))
        assert not differences(fixture.expect, given, fixture.tol), fixture.id


@subjects
@pytest.mark.parametrize("seed", range(4))
def test_gradients_are_those_of_finite_differences(subject, seed):
    """Where weights are constants of the gradient, they are held while the scores move."""
    objective, step = subject.objective(), 1e-6
    piece = whole(objective, batch(seed=seed), filler=0.0).streams
    base = piece.logprobs["current"]
    held = objective.ratio(piece).detach()
    current = base.clone().requires_grad_()
    moved = with_current(piece, current)
    (slopes,) = torch.autograd.grad(on_actions(subject.surrogate(objective.ratio(moved), moved), piece).sum(), current)

    def nudged(token, by):
        moved = with_current(piece, base.index_add(0, torch.tensor([token]), torch.tensor([by], dtype=base.dtype)))
        ratio = {
            "ratio": objective.ratio(moved),
            "own": held * torch.exp(moved.logprobs["current"] - base),
            "logprob": held,
        }[subject.follows]
        found = subject.surrogate(ratio, moved)
        return float(on_actions(found, piece).sum()), found.flags

    places = piece.action_mask.nonzero().flatten().tolist()
    smooth = 0
    for token in places:
        (high, flags_up), (low, flags_down) = nudged(token, step), nudged(token, -step)
        if torch.equal(flags_up, flags_down):
            smooth += 1
            assert (high - low) / (2 * step) == pytest.approx(float(slopes[token]), abs=1e-8, rel=1e-6)
    assert smooth > len(places) - 3


@subjects
def test_an_unchanged_policy_is_pushed_by_its_advantage(subject):
    objective = subject.objective()
    given = batch(unchanged=True)
    packed = whole(objective, given)
    terms, gradient = run(objective, packed)
    mask = packed.streams.action_mask
    due = -packed.streams.token_weights * packed.streams.advantages
    if isinstance(subject.surrogate, MirrorDescent):
        # The sum of a row's log-ratios is regressed: each token has the push of the whole row.
        due[mask] *= 2 * TAU * torch.tensor(LENGTHS).repeat_interleave(torch.tensor(LENGTHS))
    is_chosen = torch.ones_like(mask)
    for name, made in packed.streams.made.items():
        is_chosen = (made != 0) if name == "high_entropy" else (made == 0) if name == "clip_cov" else is_chosen
    assert torch.allclose(gradient[mask & is_chosen], due[mask & is_chosen], atol=1e-12)
    assert not gradient[mask & ~is_chosen].any()
    assert (terms.ratio == 1).all()


@subjects
def test_what_stands_under_a_mask_changes_nothing(subject):
    objective, given = subject.objective(), batch(seed=1)
    clean_terms, clean = run(objective, whole(objective, given, filler=0.0, padding=2))
    for poison in (float("nan"), float("inf"), float("-inf"), 1e30):
        terms, gradient = run(objective, whole(objective, given, filler=poison, padding=2))
        assert torch.equal(gradient, clean)
        assert torch.equal(terms.loss, clean_terms.loss)
        assert torch.equal(terms.flags, clean_terms.flags)


@subjects
@pytest.mark.parametrize("cuts", [(1,), (1, 2, 3), (2, 2)])
def test_gradients_do_not_depend_on_the_cut(subject, cuts):
    objective, given = subject.objective(), batch(seed=2)
    weights = weights_of(objective, given)
    loss, gradient = gradient_of(objective, given, [whole(objective, given)])
    bounds = [0, *cuts, NUM_ROWS]
    order = [2, 0, 3, 1]
    pieces = [
        pack(objective, given, order[start:end], weights=weights, gaps=place, padding=place)
        for place, (start, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True))
    ]
    cut_loss, cut_gradient = gradient_of(objective, given, pieces)
    assert cut_loss == pytest.approx(loss, abs=1e-12)
    assert torch.equal(cut_gradient, gradient)


@subjects
def test_rows_without_contrast_have_no_gradient_from_an_unchanged_policy(subject):
    objective = subject.objective()
    _, gradient = run(objective, whole(objective, batch(unchanged=True, rewards=(1.0, 1.0, 0.0, 0.0))))
    assert not gradient.any()


@subjects
def test_an_empty_piece_gives_zero_with_a_graph(subject):
    objective = subject.objective()
    given = Batch(
        inputs=credit_inputs([1.0, 0.0], lengths=[0, 0]),
        logprobs=dict.fromkeys(("behavior", "proximal", "current"), torch.zeros(0, dtype=torch.float64)),
        entropy=torch.zeros(0, dtype=torch.float64),
    )
    weights = weights_of(objective, given)
    for padding in (0, 2):
        packed = pack(objective, given, [0, 1], weights=weights, padding=padding)
        terms, gradient = run(objective, packed)
        assert float(terms.loss.detach()) == 0.0
        assert not gradient.any()


@subjects
def test_single_precision_keeps_the_numbers(subject):
    objective, given = subject.objective(), batch(seed=3)
    packed = whole(objective, given, filler=0.0)
    assert packed.streams.entropy is not None
    narrow = replace(
        packed.streams,
        advantages=packed.streams.advantages.float(),
        logprobs={name: scores.float() for name, scores in packed.streams.logprobs.items()},
        entropy=packed.streams.entropy.float(),
    )
    wide = float(loss_terms(objective, packed.streams, {}).loss)
    assert float(loss_terms(objective, narrow, {}).loss) == pytest.approx(wide, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (Cispo, "high has no default: MiniMax-M1"),
        (Aipo, "cap has no default: LlamaRL"),
        (MirrorDescent, "tau has no default: Kimi k1.5"),
        (MassAdaptiveGate, "gate has no default: MASPO"),
        (OuterClip, "low has no default: MAI-Thinking-1"),
        (partial(OuterClip, low=0.8, high=1.3, outer_low=0.3), "outer_high has no default: MAI-Thinking-1"),
    ],
)
def test_a_constant_that_nobody_told_has_no_default(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize(
    "make",
    [
        partial(Cispo, high=0.9),
        partial(Cispo, low=1.1, high=2.0),
        partial(Aipo, cap=0.5),
        partial(SequenceClip, low=3e-4, high=4e-4),
        partial(PrefixClip, low=0.0),
        partial(SoftGate, tau_positive=0.0),
        partial(MaskedImportance, low=1.5),
        partial(MaskedImportance, kl_tau=-1.0),
        partial(DoubleSidedMask, below=1.5),
        partial(BinaryDrift, low=-0.1),
        partial(OuterClip, low=0.8, high=1.3, outer_low=0.9, outer_high=3.0),
        partial(SignedBounds, negative_high=0.5),
        partial(Topr, cap=0.0),
        partial(Vespo, rate_positive=0.0),
        partial(GeometricMeanClip, log_clip=-0.1),
        partial(MassAdaptiveGate, sigma_base=0.0, gate="detached"),
        partial(MirrorDescent, tau=0.0),
        partial(KlCov, coefficient=-1.0),
        partial(ClipCov, low=1.2),
        partial(clip_cov_stage, low=5.0, high=1.0),
    ],
)
def test_numbers_that_would_cut_an_unchanged_policy_are_refused(make):
    with pytest.raises(ValueError, match="such as|at least|above 0|is the wider one|hold 1|comes first|is under"):
        make()
