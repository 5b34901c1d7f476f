"""The backward recurrence against its own definition, and rows that never meet."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms.rows import row_max, row_mean, row_min, row_sum, spread_rows
from rollwright.algorithms.scans import backward_scan, discounted_sums

lengths_of_rows = st.lists(st.sampled_from([0, 1, 2, 63, 64, 65, 200]), min_size=0, max_size=6)


def stream(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    values, decays = torch.rand(2, sum(lengths), generator=generator, dtype=torch.float64)
    return offsets, values, decays


@given(lengths_of_rows, st.integers(0, 99))
def test_the_scan_is_its_definition_in_every_row(lengths, seed):
    offsets, values, decays = stream(lengths, seed)
    found = backward_scan(values, decays, offsets)
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        running = 0.0
        for place in range(stop - 1, start - 1, -1):
            running = float(values[place]) + (float(decays[place]) * running if place < stop - 1 else 0.0)
            assert abs(float(found[place]) - running) < 1e-9


@given(lengths_of_rows, st.integers(0, 99))
def test_a_discount_a_row_equals_one_scan_for_each_row(lengths, seed):
    offsets, values, _ = stream(lengths, seed)
    discounts = torch.linspace(0, 1, len(lengths), dtype=torch.float64)
    together = discounted_sums(values, offsets, discounts)
    for row, (start, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        alone = discounted_sums(values[start:stop], torch.tensor([0, stop - start]), float(discounts[row]))
        torch.testing.assert_close(together[start:stop], alone)


def test_a_decay_behind_the_last_token_of_a_row_is_never_read():
    offsets = torch.tensor([0, 2, 3])
    found = backward_scan(torch.ones(3, dtype=torch.float64), torch.tensor([0.5, torch.nan, torch.nan]), offsets)
    assert found.tolist() == [1.5, 1.0, 1.0]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_spoils_itself_and_what_stands_before_it_in_its_row(bad):
    offsets, values, decays = stream([2, 70, 3], 1)
    clean = backward_scan(values, decays, offsets)
    values[40], decays[60] = bad, bad
    found = backward_scan(values, decays, offsets)
    spoiled = torch.zeros(75, dtype=torch.bool)
    spoiled[2:61] = True
    assert found.isnan().equal(spoiled)
    assert found[~spoiled].equal(clean[~spoiled])


def test_rows_are_reduced_without_what_stands_under_the_mask():
    offsets = torch.tensor([0, 3, 3, 5])
    values = torch.tensor([1.0, 5.0, torch.nan, -2.0, -4.0])
    mask = torch.tensor([True, True, False, True, True])
    assert row_mean(values, mask, offsets).tolist() == [3.0, 0.0, -3.0]
    assert row_max(values, mask, offsets).tolist() == [5.0, -torch.inf, -2.0]
    assert row_min(values, mask, offsets).tolist() == [1.0, torch.inf, -4.0]
    assert row_sum(torch.where(mask, values, 0.0), offsets).tolist() == [6.0, 0.0, -6.0]
    assert spread_rows(torch.tensor([7.0, 8.0, 9.0]), offsets).tolist() == [7.0, 7.0, 7.0, 9.0, 9.0]
