"""Quantiles within groups, against NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.credit.groups import places_of
from rollwright.algorithms.regularizers.quantiles import quantiles_within

rows = st.lists(
    st.tuples(st.integers(-50, 50), st.integers(0, 3), st.booleans()),
    max_size=12,
)


@given(rows, st.sampled_from([0.0, 20.0, 50.0, 80.0, 99.0, 100.0]))
def test_they_are_numpy_s_of_the_counted_values(rows, percentile):
    values = torch.tensor([row[0] for row in rows], dtype=torch.float64)
    group = places_of(torch.tensor([row[1] for row in rows], dtype=torch.int64))
    counted = torch.tensor([row[2] for row in rows], dtype=torch.bool)
    found = quantiles_within(values, group, counted, percentile=percentile)
    for row in range(len(rows)):
        here = values[(group == group[row]) & counted].numpy()
        due = np.percentile(here, percentile) if len(here) else 0.0
        assert float(found[row]) == pytest.approx(due, abs=1e-12)


def test_a_percentile_outside_its_range_is_refused():
    one = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(ObjectiveError, match="percentile is 101"):
        quantiles_within(one.double(), one, one == 0, percentile=101.0)
