"""Temperature, top-k, top-p and min-p against a plain reference, and worked numbers."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rollwright.engines.draws import uniforms
from rollwright.engines.sampling import SamplingRows, distribution, draw, score
from rollwright.record import Sampling
from tests.cases import case, method_fixture

logits_of_a_row = st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=9)
samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 0.7, 1.0, 1.9]),
    top_p=st.sampled_from([0.2, 0.65, 0.9, 1.0]),
    top_k=st.integers(0, 6),
    min_p=st.sampled_from([0.0, 0.05, 0.4]),
)


def plain_distribution(logits, sampling):
    """Log-probabilities token by token; None where a cut falls on a boundary that rounding decides."""
    if sampling.temperature == 0:
        best = max(range(len(logits)), key=lambda i: (logits[i], -i))
        return [0.0 if i == best else -math.inf for i in range(len(logits))]
    scaled = [float(x) / sampling.temperature for x in logits]
    top = max(scaled)
    weights = [math.exp(x - top) for x in scaled]
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    if sampling.top_k:
        order = order[: sampling.top_k]
    mass = math.fsum(weights[i] for i in order)
    kept, before = [], 0.0
    for i in order:
        if abs(before - sampling.top_p * mass) < 1e-9 * mass and sampling.top_p < 1 and kept:
            return None
        if sampling.top_p < 1 and before >= sampling.top_p * mass:
            break
        kept.append(i)
        before += weights[i]
    bound = sampling.min_p * weights[order[0]]
    if any(abs(weights[i] - bound) < 1e-9 for i in kept) and sampling.min_p > 0:
        return None
    kept = [i for i in kept if weights[i] >= bound]
    total = math.log(math.fsum(weights[i] for i in kept))
    return [scaled[i] - top - total if i in kept else -math.inf for i in range(len(logits))]


@given(logits_of_a_row, samplings)
def test_the_distribution_is_the_plain_one(logits, sampling):
    expected = plain_distribution(np.float32(logits), sampling)
    assume(expected is not None)
    assert expected is not None
    found = distribution(np.array([logits], dtype=np.float32), SamplingRows.of([sampling]))[0]
    assert np.isneginf(found).tolist() == np.isneginf(expected).tolist()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@given(logits_of_a_row, samplings)
def test_the_distribution_sums_to_one_and_no_logprob_is_positive(logits, sampling):
    found = distribution(np.array([logits], dtype=np.float32), SamplingRows.of([sampling]))[0]
    assert abs(np.exp(found).sum() - 1) < 1e-9
    assert (found <= 1e-12).all()


@given(st.lists(samplings, min_size=1, max_size=6), st.integers(0, 2**31), st.integers(2, 9))
def test_a_drawn_token_has_the_logprob_of_the_distribution_it_was_drawn_from(rows, seed, vocab):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(len(rows), vocab)).astype(np.float32) * 3
    table = SamplingRows.of(rows)
    drawn = draw(logits, table, rng.random(len(rows)))
    expected = distribution(logits, table)[np.arange(len(rows)), drawn.token_ids]
    np.testing.assert_allclose(drawn.logprobs, expected, atol=1e-12)
    for row, sampling in enumerate(rows):
        alone = draw(logits[row : row + 1], SamplingRows.of([sampling]), np.array([0.5]))
        again = draw(logits, table, np.full(len(rows), 0.5))
        assert alone.token_ids[0] == again.token_ids[row]
        assert alone.logprobs[0] == again.logprobs[row]


def test_frequencies_follow_the_distribution():
    count = 40_000
    logits = np.tile(np.array([[1.0, 0.0, 2.0, -1.0, 0.5]], dtype=np.float32), (count, 1))
    sampling = Sampling(temperature=0.8, top_k=4)
    numbers = uniforms(
        np.full(count, 7, dtype=np.uint64), np.zeros(count, dtype=np.uint64), np.arange(count, dtype=np.uint64)
    )
    drawn = draw(logits, SamplingRows.of([sampling] * count), numbers)
    frequencies = np.bincount(drawn.token_ids, minlength=5) / count
    expected = np.exp(distribution(logits[:1], SamplingRows.of([sampling]))[0])
    assert expected[3] == 0
    assert (np.abs(frequencies - expected) < 4 * np.sqrt(expected / count) + 1e-12).all()


def test_equal_probabilities_are_cut_in_id_order():
    found = distribution(np.zeros((1, 5), dtype=np.float32), SamplingRows.of([Sampling(top_k=2)]))[0]
    assert np.isfinite(found).tolist() == [True, True, False, False, False]


def test_greedy_takes_the_lowest_of_equal_tokens_with_logprob_zero():
    logits = np.array([[0.5, 2.0, 2.0]], dtype=np.float32)
    drawn = draw(logits, SamplingRows.of([Sampling(temperature=0)]), np.array([0.99]))
    assert (drawn.token_ids.tolist(), drawn.logprobs.tolist()) == ([1], [0.0])


def test_logits_that_are_not_finite_draw_nothing_and_leave_the_neighbors_alone():
    logits = np.array([[np.nan, 1.0], [3.0, 1.0], [np.inf, 1.0]], dtype=np.float32)
    drawn = draw(logits, SamplingRows.of([Sampling()] * 3), np.full(3, 0.1))
    assert np.isnan(drawn.logprobs).tolist() == [True, False, True]
    assert drawn.token_ids[1] == 0


@pytest.mark.case("F98")
def test_temperature_divides_logits_before_normalizing():
    given_case = case("F98")
    logits = np.array([given_case.input["logits"]], dtype=np.float32)
    found = distribution(logits, SamplingRows.of([Sampling(temperature=given_case.input["temperature"])]))[0]
    np.testing.assert_allclose(found, given_case.expect["logprobs"], atol=1e-6)
    assert abs(np.exp(found).sum() - given_case.expect["sum_of_probs"]) < 1e-12


@pytest.mark.case("F100")
def test_logprobs_come_from_single_precision_logits_and_are_never_positive():
    given_case = case("F100")
    logits = np.array([given_case.input["logits"]], dtype=np.float32)
    found = distribution(logits, SamplingRows.of([Sampling()]))[0]
    assert abs(found[0] - given_case.expect["logprob_fp32"]) < 1e-6
    assert (found <= 0).all()


def test_a_tempered_nucleus_is_renormalized():
    fixture = method_fixture("M47.a")
    sampling = Sampling(temperature=fixture.input["T"], top_p=fixture.input["top_p"])
    logits = np.array([fixture.input["logits"]], dtype=np.float32)
    found = distribution(logits, SamplingRows.of([sampling]))[0]
    assert np.flatnonzero(np.isfinite(found)).tolist() == fixture.expect["nucleus"]
    token = fixture.input["token"]
    assert abs(found[token] - fixture.expect["behaviour_logp"]) < 1e-7
    assert abs(score(logits, np.array([token]), sampling).logprobs[0] - fixture.expect["behaviour_logp"]) < 1e-7
