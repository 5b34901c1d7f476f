"""Sums over spans: each has the bits that the span alone would give."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rollwright.batches.spans import counts_in, largest_of_spans, sums_of_spans

lengths = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 300)), max_size=12)


def laid_out(lengths, gap):
    """(T,) numbers of many magnitudes, and spans of these lengths with a gap between them."""
    stops = np.cumsum([length + gap for length in lengths], dtype=np.int64)
    spans = np.stack([stops - lengths, stops], axis=1).astype(np.int64) if lengths else np.zeros((0, 2), np.int64)
    draws = np.random.default_rng(sum(lengths) + gap)
    total = int(stops[-1]) if lengths else 0
    return draws.normal(size=total) * 10.0 ** draws.integers(-8, 8, total), spans


@given(lengths, st.integers(0, 2))
def test_a_sum_has_the_bits_of_the_span_alone(lengths, gap):
    values, spans = laid_out(lengths, gap)
    due = [values[a:b].sum() for a, b in spans]
    assert sums_of_spans(values, spans).tolist() == due


@given(lengths, st.integers(0, 2))
def test_the_largest_value_is_the_spans_own(lengths, gap):
    values, spans = laid_out(lengths, gap)
    due = [values[a:b].max() if b > a else np.nan for a, b in spans]
    np.testing.assert_array_equal(largest_of_spans(values, spans), due)


def test_a_value_that_is_no_number_is_the_largest_of_its_span_alone():
    values = np.array([1.0, np.nan, 2.0, 3.0])
    found = largest_of_spans(values, np.array([[0, 2], [2, 4], [4, 4]]))
    np.testing.assert_array_equal(found, [np.nan, 3.0, np.nan])


@given(lengths, st.integers(0, 2))
def test_counts_are_of_the_span_alone(lengths, gap):
    values, spans = laid_out(lengths, gap)
    assert counts_in(values > 0, spans).tolist() == [int((values[a:b] > 0).sum()) for a, b in spans]
