"""Ratios of prefixes, and the running sums under them."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms.ratios.prefix_ratios import prefix_band, prefix_log_ratio, prefix_mean_ratio, prefix_ratio
from rollwright.algorithms.ratios.prefix_sums import action_places, prefix_sums
from rollwright.algorithms.ratios.sequence_ratios import sequence_product_ratio
from tests.algorithms.test_sequence_ratios import piece_of, slopes
from tests.cases import method_fixtures

rows_of_tokens = st.lists(st.lists(st.tuples(st.floats(-2, 2), st.booleans()), max_size=9), min_size=1, max_size=4)


def test_the_worked_numbers_of_prefixes_and_their_band():
    fixture = method_fixtures("M38")[0]
    _, piece = piece_of([fixture.input["log_ratio"]])
    assert prefix_log_ratio(piece).tolist() == pytest.approx(fixture.expect["log_prefix"], abs=fixture.tol)
    assert prefix_ratio(piece).tolist() == pytest.approx(fixture.expect["prefix"], abs=fixture.tol)
    places = action_places(piece.action_mask, piece.row_offsets)
    low, high = prefix_band(places, **{name: fixture.input[name] for name in ("low", "high", "power")})
    assert low.tolist() == pytest.approx(fixture.expect["clip_lo"], abs=fixture.tol)
    assert high.tolist() == pytest.approx(fixture.expect["clip_hi"], abs=fixture.tol)


@pytest.mark.row("S168", "S314")
def test_a_prefix_ratio_alone_does_not_correct_what_a_terminal_reward_depends_on():
    # Two actions, reward a1·a2; the policies differ in the second alone. Every outcome, weighed by its chance.
    fixture = method_fixtures("M38")[1]
    p1, target, behavior = (fixture.input[name] for name in ("p1", "target_p2", "behaviour_p2"))
    logit = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    assert torch.sigmoid(logit).item() == p1
    found: dict[str, float] = dict.fromkeys(("true_grad", "prefix_only", "prefix_times_Q"), 0.0)
    for first in (0, 1):
        for second in (0, 1):
            score = torch.nn.functional.logsigmoid(logit if first else -logit)
            new, old = (torch.tensor([p if second else 1 - p], dtype=torch.float64).log() for p in (target, behavior))
            chance = float((score.detach() + old).exp())
            scores = {"current": torch.cat([score, new]), "proximal": torch.cat([score.detach(), old])}
            piece = replace(piece_of([[0.0, 0.0]])[1], logprobs=scores)
            reward, future = float(first * second), first * target
            for name, ratio, worth in (
                ("true_grad", sequence_product_ratio(piece), reward),
                ("prefix_only", prefix_ratio(piece), reward),
                ("prefix_times_Q", prefix_ratio(piece), future),
            ):
                (slope,) = torch.autograd.grad(ratio[0] * chance * worth, logit, retain_graph=True)
                found[name] += float(slope)
    assert found == pytest.approx(fixture.expect, abs=fixture.tol)


@pytest.mark.row("S168")
def test_ten_thousand_tokens_overflow_nothing():
    # A product of 10,000 ratios of e^±1 is e^±10000 on the way: no float holds it, its log does.
    up_and_down = [1.0] * 5000 + [-1.0] * 5000
    for dtype in (torch.float32, torch.float64):
        current, piece = piece_of([up_and_down, [-1.0] * 10_000], dtype=dtype)
        log_prefix = prefix_log_ratio(piece)
        assert float(log_prefix.max()) == 5000.0 and float(log_prefix[9999]) == 0.0
        assert float(log_prefix.min()) == -10_000.0
        found = prefix_ratio(piece)
        assert found.isfinite().all() and float(found[9999].detach()) == 1.0
        (gradient,) = torch.autograd.grad(found.sum(), current)
        assert gradient.isfinite().all()
        assert not gradient[11:9989].any(), "beyond the bound nothing pushes"
        assert float(gradient[9999]) == 1.0


@given(rows=rows_of_tokens)
def test_gaps_padding_and_neighbours_change_no_bit(rows):
    mask = [[is_action for _, is_action in row] for row in rows]
    _, piece = piece_of([[value for value, _ in row] for row in rows], mask=mask)
    for ratio in (prefix_ratio, prefix_mean_ratio, prefix_log_ratio):
        found = ratio(piece)
        for index, row in enumerate(rows):
            _, alone = piece_of([[value for value, is_action in row if is_action]])
            start, end = piece.row_offsets[index], piece.row_offsets[index + 1]
            assert torch.equal(found[start:end][piece.action_mask[start:end]], ratio(alone))


@given(rows=rows_of_tokens)
def test_running_sums_are_those_of_a_loop(rows):
    values = torch.tensor([value for row in rows for value, _ in row], dtype=torch.float64)
    mask = torch.tensor([is_action for row in rows for _, is_action in row], dtype=torch.bool)
    offsets = torch.tensor([0, *(len(row) for row in rows)]).cumsum(0)
    sums, places = [], []
    for row in rows:
        total, count = 0.0, 0
        for value, is_action in row:
            total += value if is_action else 0.0
            count += is_action
            sums.append(total if is_action else 0.0)
            places.append(count if is_action else 0)
    assert prefix_sums(values, mask, offsets).tolist() == pytest.approx(sums, abs=1e-12)
    assert action_places(mask, offsets).tolist() == places


def test_running_sums_have_the_gradient_of_what_they_hold():
    values = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64, requires_grad=True)
    mask, offsets = torch.tensor([True, False, True, True]), torch.tensor([0, 3, 4])
    sums = prefix_sums(values, mask, offsets)
    (gradient,) = torch.autograd.grad((sums * torch.tensor([1.0, 9.0, 10.0, 100.0])).sum(), values)
    assert gradient.tolist() == [11.0, 0.0, 10.0, 100.0]


def test_masked_values_are_not_read():
    values = torch.tensor([1.0, float("nan"), 2.0])
    assert prefix_sums(values, torch.tensor([True, False, True]), torch.tensor([0, 3])).tolist() == [1.0, 0.0, 3.0]


def test_the_gradient_is_that_of_the_tokens_own_score():
    current, piece = piece_of([[0.02, 0.1, -0.3]])
    for ratio in (prefix_ratio, prefix_mean_ratio):
        assert slopes(ratio(piece), current) == pytest.approx(ratio(piece).tolist())


def test_a_geometric_mean_is_the_prefix_at_the_power_of_one_over_its_length():
    _, piece = piece_of([[0.02, 0.1, -0.3]])
    due = [value ** (1 / place) for place, value in enumerate(prefix_ratio(piece).tolist(), start=1)]
    assert prefix_mean_ratio(piece).tolist() == pytest.approx(due)


def test_equal_policies_have_a_ratio_of_exactly_one():
    _, piece = piece_of([[0.0] * 70, [0.0]], dtype=torch.float32)
    assert prefix_ratio(piece).tolist() == [1.0] * 71
    assert prefix_mean_ratio(piece).tolist() == [1.0] * 71


def test_the_band_of_masked_tokens_is_zero_and_narrows_at_a_negative_power():
    low, high = prefix_band(torch.tensor([0, 1, 4]), low=0.2, high=0.4, power=-0.5)
    assert low[0] == 0 and high[0] == 0
    assert low[1:].log().tolist() == pytest.approx([-0.2, -0.1])
    assert high[1:].log().tolist() == pytest.approx([0.4, 0.2])
