"""Tokens that a stage of the update chooses: by covariance, and by entropy."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import SELECTED, TOKEN_MASK, has_flag
from rollwright.algorithms.presets import clipped, grpo
from rollwright.algorithms.ratios.token_ratios import token_ratio
from rollwright.algorithms.surrogates.clipping import Clip
from rollwright.algorithms.surrogates.covariance import (
    ClipCov,
    KlCov,
    clip_cov_stage,
    covariances,
    kl_cov_stage,
    select_between,
    select_largest,
)
from rollwright.algorithms.surrogates.earl_gate import EarlGate, earl_gate_stage
from rollwright.algorithms.surrogates.selection import largest_share
from tests.algorithms.pieces import Batch, credit_inputs, pack, run, weights_of
from tests.algorithms.test_ratio_and_clip import streams
from tests.cases import method_fixture


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def tokens(count, seed=0, **more):
    """Random tokens before their update."""
    numbers = torch.randn(2, count, generator=generator(seed), dtype=torch.float64)
    piece = streams(numbers[0].tolist(), proximal=(-numbers[1].abs()).tolist(), **more)
    return replace(piece, logprobs={**piece.logprobs, "current": piece.logprobs["proximal"]})


def places(chosen):
    return chosen.nonzero().flatten().tolist()


@given(count=st.integers(0, 30), seed=st.integers(0, 100), share=st.floats(0.01, 1.0))
@settings(max_examples=60)
def test_a_selection_has_its_share_of_action_tokens_and_at_least_one(count, seed, share):
    mask = torch.rand(count, generator=generator(seed)) < 0.7
    piece = tokens(count, seed, mask=mask.tolist())
    total = int(mask.sum())
    due = min(total, max(1, int(share * total)))
    for chosen in (
        select_largest(piece, generator(), share=share),
        select_between(piece, generator(), share=share, low=-1e9, high=1e9),
    ):
        assert int(chosen.sum()) == due
        assert not chosen[~mask].any()


def test_covariances_do_not_read_what_is_masked():
    piece = tokens(6, mask=[1, 1, 1, 1, 0, 0])
    found = covariances(piece.advantages, piece.logprobs["proximal"], piece.action_mask)
    poisoned = piece.advantages.clone()
    poisoned[4:] = torch.nan
    assert torch.equal(covariances(poisoned, piece.logprobs["proximal"], piece.action_mask), found)
    short = covariances(piece.advantages[:4], piece.logprobs["proximal"][:4], piece.action_mask[:4])
    assert torch.equal(found[:4], short)
    assert not found[4:].any()


@pytest.mark.row("S185")
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_clip_cov_detaches_the_share_that_was_drawn_and_leaves_the_rest(share):
    fixture = method_fixture("M57.a")
    low, high = fixture.input["lb"], fixture.input["ub"]
    stage = clip_cov_stage(share=share, low=low, high=high)
    current = torch.tensor(fixture.input["logp"], dtype=torch.float64, requires_grad=True)
    piece = streams(fixture.input["A"], current=current, proximal=current.detach().tolist())
    piece = replace(piece, made={stage.name: stage.make(piece, generator())})
    drawn = piece.made[stage.name]
    assert set(places(drawn)) <= set(fixture.expect["candidates"])
    assert int(drawn.sum()) == min(len(fixture.expect["candidates"]), int(share * 5))
    found, plain = ClipCov()(token_ratio(piece), piece), Clip()(token_ratio(piece), piece)
    (gradient,) = torch.autograd.grad(found.per_token.sum(), current)
    (left,) = torch.autograd.grad(plain.per_token.sum(), current)
    assert not gradient[drawn].any()
    assert torch.equal(gradient[~drawn], left[~drawn])
    # The metric is the share of tokens with this flag.
    assert torch.equal(has_flag(found.flags, SELECTED), drawn)


def test_the_draw_repeats_with_its_generator_and_reaches_every_candidate():
    piece = tokens(40)
    kwargs = {"share": 0.1, "low": -0.5, "high": 0.5}
    draws = [places(select_between(piece, generator(seed), **kwargs)) for seed in range(40)]
    assert draws[0] == places(select_between(piece, generator(0), **kwargs))
    found = covariances(piece.advantages, piece.logprobs["proximal"], piece.action_mask)
    assert set().union(*draws) == set(places((found > -0.5) & (found < 0.5)))


def test_the_bounds_of_a_covariance_are_strict_and_no_candidates_are_none():
    piece = streams([1.0, -1.0], proximal=[0.0, -2.0])
    # Both tokens have the covariance 1 · 1.
    assert not select_between(piece, generator(), share=1.0, low=1.0, high=5.0).any()
    assert not select_between(piece, generator(), share=1.0, low=0.0, high=1.0).any()
    assert select_between(piece, generator(), share=1.0, low=0.0, high=1.1).all()


@pytest.mark.row("S186")
@pytest.mark.parametrize("share", [0.2, 0.4])
def test_kl_cov_penalises_the_chosen_tokens_alone(share):
    fixture = method_fixture("M58.a")
    stage = kl_cov_stage(share=share)
    before = torch.tensor(fixture.input["logp"], dtype=torch.float64)
    current = (before + torch.tensor(fixture.input["log_ratio"], dtype=torch.float64)).requires_grad_()
    piece = streams(fixture.input["A"], current=current, proximal=before)
    piece = replace(piece, made={stage.name: stage.make(piece, generator())})
    chosen = piece.made[stage.name]
    assert places(chosen) == ([3] if share == 0.2 else fixture.expect["selected"])
    ratio = token_ratio(piece)
    found = KlCov(coefficient=2.0)(ratio, piece)
    (gradient,) = torch.autograd.grad(found.per_token.sum(), current)
    pull = gradient - (ratio * piece.advantages).detach()
    due = torch.where(chosen, -2.0 * torch.sign(current - before), 0.0)
    assert torch.allclose(pull, due.detach(), atol=1e-12)
    assert torch.equal(has_flag(found.flags, SELECTED), chosen)
    assert float(has_flag(found.flags, SELECTED).double().mean()) == share


@pytest.mark.row("S188")
@pytest.mark.parametrize("share", [0.25, 0.5])
def test_the_entropy_gate_has_no_gradient_outside_the_share_of_highest_entropy(share):
    objective = replace(
        clipped("earl", credit=center_within_group, clip=Clip(), weights=TokenMean()),
        surrogate=EarlGate(surrogate=Clip()),
        stages=(earl_gate_stage(share=share),),
        needs=frozenset({"proximal", "entropy"}),
    )
    entropy = torch.tensor([0.1, 2.0, 0.3, 1.0, 0.2, 0.05, 1.5, 0.4], dtype=torch.float64)
    scores = torch.full((8,), -1.0, dtype=torch.float64)
    given_batch = Batch(
        inputs=credit_inputs([1.0, 0.0], lengths=[4, 4]),
        logprobs={"proximal": scores, "current": scores},
        entropy=entropy,
    )
    packed = pack(objective, given_batch, [0, 1], weights=weights_of(objective, given_batch))
    terms, gradient = run(objective, packed)
    mask = packed.streams.action_mask
    is_high = entropy >= entropy.sort(descending=True).values[int(share * 8) - 1]
    assert (gradient[mask] != 0).tolist() == is_high.tolist()
    assert has_flag(terms.flags, SELECTED)[mask].tolist() == is_high.tolist()
    assert has_flag(terms.flags, TOKEN_MASK)[mask].tolist() == (~is_high).tolist()
    # The denominator stays: a token that is let through weighs 1/8.
    assert gradient[mask][is_high].abs().tolist() == pytest.approx([0.5 / 8] * int(is_high.sum()))


def test_equal_values_are_chosen_in_order():
    mask = torch.tensor([True, False, True, True, True])
    values = torch.tensor([1.0, 9.0, 2.0, 1.0, 1.0])
    assert places(largest_share(values, mask, 0.75)) == [0, 2, 3]
    assert places(largest_share(torch.zeros(5), mask, 0.5)) == [0, 2]
    assert not largest_share(values, torch.zeros(5, dtype=torch.bool), 0.5).any()


def test_what_a_selection_lacks_is_named():
    piece = tokens(3)
    with pytest.raises(ObjectiveError, match="reads what the stage 'clip_cov' makes"):
        ClipCov()(token_ratio(piece), piece)
    with pytest.raises(ObjectiveError, match="Add 'entropy'"):
        earl_gate_stage(share=0.5).make(piece, generator())
    with pytest.raises(ObjectiveError, match=r"it is in \(0, 1\]"):
        kl_cov_stage(share=0.0).make(piece, generator())
    with pytest.raises(ObjectiveError, match="Add 'proximal'"):
        kl_cov_stage(share=0.5).make(replace(piece, logprobs={}), generator())
    assert grpo().stages == ()
