"""Scores under the distribution that was sampled from, and half precision on the way to them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError, token_ratio
from rollwright.algorithms.corrections.behavior_support import candidate_set, support_logprobs, tempered_logprobs
from tests.algorithms.test_ratio_and_clip import streams
from tests.cases import method_fixture

NONE = torch.zeros(0, dtype=torch.int64)


def supports(candidates):
    """(n, V) bool as offsets and ids."""
    return {
        "offsets": torch.tensor([0, *(int(row.sum()) for row in candidates)]).cumsum(0),
        "token_ids": candidates.nonzero()[:, 1],
    }


def test_raw_tempered_and_cut_scores_match_the_worked_numbers():
    fixture = method_fixture("M47.a")
    logits = torch.tensor([fixture.input["logits"]], dtype=torch.float64)
    token = torch.tensor([fixture.input["token"]])
    temperature = fixture.input["T"]
    candidates = candidate_set(logits, temperature, top_p=fixture.input["top_p"])
    assert candidates[0].nonzero().squeeze(1).tolist() == fixture.expect["nucleus"]
    scores = support_logprobs(logits, token, temperature, **supports(candidates))
    assert float(tempered_logprobs(logits, token, 1.0)) == pytest.approx(fixture.expect["raw_logp"])
    assert float(tempered_logprobs(logits, token, temperature)) == pytest.approx(fixture.expect["tempered_logp"])
    assert float(scores.logprobs) == pytest.approx(fixture.expect["behaviour_logp"])
    assert not scores.is_outside


def test_candidates_by_hand():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64).log()
    assert candidate_set(logits, 1.0).tolist() == [[True] * 4]
    assert candidate_set(logits, 1.0, top_p=0.5).tolist() == [[True, False, False, False]]
    assert candidate_set(logits, 1.0, top_p=0.51).tolist() == [[True, True, False, False]]
    assert candidate_set(logits, 1.0, top_k=3).tolist() == [[True, True, True, False]]
    assert candidate_set(logits, 1.0, min_p=0.3).tolist() == [[True, True, True, False]]
    # After top-k = 2 the probabilities are 0.625 and 0.375.
    assert candidate_set(logits, 1.0, top_k=2, top_p=0.6).tolist() == [[True, False, False, False]]


def test_top_p_of_one_keeps_every_finite_logit_and_equal_logits_stand_in_order():
    logits = torch.tensor([[0.0, -torch.inf, -200.0], [1.0, 1.0, 1.0]])
    assert candidate_set(logits, 1.0, top_p=1.0).tolist() == [[True, False, True], [True, True, True]]
    assert candidate_set(logits, 1.0, top_k=2).tolist() == [[True, False, True], [True, True, False]]


@pytest.mark.parametrize("cut", [{"top_p": 0.0}, {"top_p": 1.1}, {"top_k": -1}, {"min_p": math.nan}])
def test_cuts_outside_their_range_are_refused(cut):
    with pytest.raises(ObjectiveError, match="top_p lies in"):
        candidate_set(torch.zeros(1, 2), 1.0, **cut)


def test_a_token_outside_its_candidates_is_said_and_never_minus_infinity():
    logits = torch.tensor([[2.0, 1.0, 0.0]], requires_grad=True)
    candidates = torch.tensor([[True, True, False]])
    scores = support_logprobs(logits, torch.tensor([2]), 1.0, **supports(candidates))
    assert scores.is_outside.tolist() == [True] and scores.logprobs.tolist() == [0.0]
    (gradient,) = torch.autograd.grad(scores.logprobs.sum(), logits)
    assert not gradient.any()


def test_a_token_without_recorded_candidates_was_drawn_from_all():
    logits = torch.tensor([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0]], dtype=torch.float64)
    tokens = torch.tensor([1, 1])
    scores = support_logprobs(logits, tokens, 0.5, offsets=torch.tensor([0, 0, 2]), token_ids=torch.tensor([1, 0]))
    assert float(scores.logprobs[0]) == pytest.approx(float(tempered_logprobs(logits[:1], tokens[:1], 0.5)))
    assert float(scores.logprobs[1]) == pytest.approx(2.0 - math.log(math.exp(2) + math.exp(4)))


@given(seed=st.integers(0, 2**31), count=st.integers(1, 5), temperature=st.floats(0.3, 3.0))
def test_scores_over_candidates_are_log_softmax_with_the_rest_at_minus_infinity(seed, count, temperature):
    draws = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(count, 7, generator=draws, dtype=torch.float64)
    candidates = torch.rand(count, 7, generator=draws) < 0.5
    candidates[:, 3] = True
    tokens = torch.stack([row.nonzero().squeeze(1)[-1] for row in candidates])
    plain = (logits / temperature).masked_fill(~candidates, -torch.inf).log_softmax(1)
    moved = logits.clone().requires_grad_()
    scores = support_logprobs(moved, tokens, temperature, **supports(candidates))
    assert torch.allclose(scores.logprobs, plain.gather(1, tokens[:, None])[:, 0])
    (gradient,) = torch.autograd.grad(scores.logprobs.sum(), moved)
    due = (torch.nn.functional.one_hot(tokens, 7) - plain.exp()) / temperature
    assert torch.allclose(gradient, due)


@pytest.mark.row("S253")
@given(seed=st.integers(0, 2**31), top_p=st.floats(0.2, 1.0), temperature=st.floats(0.3, 3.0))
def test_over_the_candidates_that_were_stored_the_probabilities_of_each_step_sum_to_one(seed, top_p, temperature):
    """The sets are those of the weights that sampled; what scores them has moved since."""
    draws = torch.Generator().manual_seed(seed)
    sampled = 3 * torch.randn(4, 9, generator=draws, dtype=torch.float64)
    moved = sampled + 0.5 * torch.randn(4, 9, generator=draws, dtype=torch.float64)
    stored = candidate_set(sampled, temperature, top_p=top_p)
    steps, tokens = stored.nonzero(as_tuple=True)
    scores = support_logprobs(moved[steps], tokens, temperature, **supports(stored[steps]))
    assert not scores.is_outside.any()
    sums = torch.zeros(4, dtype=torch.float64).index_add(0, steps, scores.logprobs.exp())
    assert torch.allclose(sums, torch.ones(4, dtype=torch.float64))
    whole = tempered_logprobs(moved[steps], tokens, temperature)
    assert bool((scores.logprobs >= whole - 1e-12).all())


def test_temperatures_of_tokens_are_theirs():
    logits = torch.tensor([[2.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    tokens = torch.tensor([0, 0])
    found = tempered_logprobs(logits, tokens, torch.tensor([1.0, 2.0]))
    assert found.tolist() == pytest.approx([-math.log(1 + math.exp(-2)), -math.log(1 + math.exp(-1))])


@pytest.mark.parametrize("temperature", [0.0, -1.0, torch.tensor([1.0, 0.0])])
def test_a_temperature_of_zero_is_refused(temperature):
    with pytest.raises(ObjectiveError, match="above 0"):
        tempered_logprobs(torch.zeros(2, 2), torch.tensor([0, 0]), temperature)


def test_offsets_that_do_not_fit_are_refused():
    with pytest.raises(ObjectiveError, match="one offset more than tokens"):
        support_logprobs(torch.zeros(1, 2), torch.tensor([0]), 1.0, offsets=torch.tensor([0]), token_ids=NONE)


@given(seed=st.integers(0, 2**31), scale=st.sampled_from([1.0, 10.0, 40.0]))
def test_half_precision_logits_of_equal_weights_have_a_ratio_of_exactly_one(seed, scale):
    draws = torch.Generator().manual_seed(seed)
    logits = (scale * torch.randn(6, 50, generator=draws)).to(torch.bfloat16)
    tokens = torch.randint(50, (6,), generator=draws)
    engine = tempered_logprobs(logits, tokens, 0.7)
    # The learner sees the same rows in another order and beside others.
    order = torch.randperm(6, generator=draws)
    learner = torch.empty(6).index_copy(0, order, tempered_logprobs(logits[order], tokens[order], 0.7))
    assert engine.dtype == torch.float32
    piece = streams([1.0] * 6, current=learner, proximal=engine)
    assert token_ratio(piece).tolist() == [1.0] * 6
    exact = (logits.double() / 0.7).log_softmax(1).gather(1, tokens[:, None])[:, 0]
    assert torch.allclose(engine.double(), exact, atol=1e-4)


def test_a_log_softmax_in_half_precision_loses_the_ratio_of_one():
    draws = torch.Generator().manual_seed(5)
    logits = (10 * torch.randn(200, 50, generator=draws)).to(torch.bfloat16)
    tokens = logits.float().argmax(1)
    half = logits.log_softmax(1).gather(1, tokens[:, None])[:, 0].double()
    worst = (half - tempered_logprobs(logits, tokens, 1.0).double()).exp().sub(1).abs().max()
    assert worst > 1e-3
