"""Ratios of whole rows: the product, the geometric mean, and the token form of the latter."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ResponseMean, TokenStreams, clean_streams
from rollwright.algorithms.ratios.sequence_ratios import (
    sequence_mean_ratio,
    sequence_product_ratio,
    sequence_token_ratio,
)
from tests.cases import case, method_fixtures

RATIOS = [sequence_product_ratio, sequence_mean_ratio, sequence_token_ratio]
ratios = pytest.mark.parametrize("ratio", RATIOS, ids=lambda ratio: ratio.__name__)


def piece_of(rows, *, mask=None, dtype=torch.float64, below="proximal"):
    """Rows whose current policy lies these nats above the other one."""
    flat = [value for row in rows for value in row]
    keep = [True] * len(flat) if mask is None else [bool(value) for row in mask for value in row]
    current = torch.tensor(flat, dtype=dtype, requires_grad=True)
    raw = TokenStreams(
        row_offsets=torch.tensor([0, *(len(row) for row in rows)]).cumsum(0),
        action_mask=torch.tensor(keep, dtype=torch.bool),
        advantages=torch.ones(len(flat), dtype=torch.float64),
        token_weights=torch.ones(len(flat), dtype=torch.float64),
        policy_versions=torch.zeros(len(flat), dtype=torch.int32),
        logprobs={"current": current, below: torch.zeros(len(flat), dtype=dtype)},
        values={},
    )
    return current, clean_streams(raw, frozenset({"current", below})).streams


def slopes(found, current):
    (gradient,) = torch.autograd.grad(found.sum(), current, retain_graph=True)
    return gradient.tolist()


def test_the_worked_numbers_of_product_and_mean():
    first, second = method_fixtures("M36")
    _, piece = piece_of([first.input["log_ratio"]])
    assert sequence_product_ratio(piece).tolist() == pytest.approx([first.expect["sequence"]] * 3)
    assert sequence_mean_ratio(piece).tolist() == pytest.approx([first.expect["geometric"]] * 3)
    one = torch.tensor(second.input["per_token_ratio"], dtype=torch.float64).log().item()
    _, long = piece_of([[one] * length for length in second.input["len"]])
    ends = long.row_offsets[1:] - 1
    assert sequence_product_ratio(long)[ends].tolist() == pytest.approx(second.expect["sequence"])
    assert sequence_mean_ratio(long)[ends].tolist() == pytest.approx(second.expect["geometric"])


@pytest.mark.row("S166")
def test_the_ratio_of_gspo_is_the_geometric_mean_of_the_row():
    token_ratios = [1.1, 0.9, 2.0, 0.5]
    _, piece = piece_of([torch.tensor(token_ratios, dtype=torch.float64).log().tolist()])
    due = (1.1 * 0.9 * 2.0 * 0.5) ** (1 / 4)
    for ratio in (sequence_mean_ratio, sequence_token_ratio):
        assert ratio(piece).tolist() == pytest.approx([due] * 4, rel=1e-12)


@pytest.mark.case("F47")
@pytest.mark.parametrize("ratio", [sequence_mean_ratio, sequence_token_ratio], ids=lambda ratio: ratio.__name__)
def test_only_the_rows_own_action_tokens_count(ratio):
    given_case = case("F47")
    rows = [
        [new - old for new, old in zip(*pair, strict=True)]
        for pair in zip(given_case.input["new_logprobs"], given_case.input["old_logprobs"], strict=True)
    ]
    _, piece = piece_of(rows, mask=given_case.input["mask"])
    found = [float(ratio(piece)[start].detach()) for start in piece.row_offsets[:-1].tolist()]
    assert found == pytest.approx(given_case.expect["sequence_ratio"])
    for name in ("wrong_sum", "wrong_mean_over_width", "wrong_with_padding"):
        assert found != pytest.approx(given_case.expect[name])
    # A row has its ratio to the last bit, whoever its batch mates are.
    for row, mask in zip(rows, given_case.input["mask"], strict=True):
        _, alone = piece_of([row], mask=[mask])
        assert float(ratio(alone)[0].detach()) in found


@ratios
@given(rows=st.lists(st.lists(st.tuples(st.floats(-2, 2), st.booleans()), max_size=6), min_size=1, max_size=4))
def test_gaps_padding_and_neighbours_change_no_bit(ratio, rows):
    values = [[value for value, _ in row] for row in rows]
    mask = [[is_action for _, is_action in row] for row in rows]
    _, piece = piece_of(values, mask=mask)
    found = ratio(piece)
    assert (found[~piece.action_mask] == 1).all()
    for index, row in enumerate(rows):
        compact = [value for value, is_action in row if is_action]
        _, alone = piece_of([compact])
        start, end = piece.row_offsets[index], piece.row_offsets[index + 1]
        here = found[start:end][piece.action_mask[start:end]]
        assert torch.equal(here, ratio(alone))


@ratios
def test_equal_policies_have_a_ratio_of_exactly_one(ratio):
    for dtype in (torch.float32, torch.float64):
        _, piece = piece_of([[0.0] * 7, [0.0]], dtype=dtype)
        assert ratio(piece).tolist() == [1.0] * 8
        assert ratio(piece).dtype == dtype


@ratios
def test_a_row_without_action_tokens_is_one_and_has_no_gradient(ratio):
    current, piece = piece_of([[0.3, 0.4], [0.1]], mask=[[0, 0], [1]])
    assert ratio(piece)[:2].tolist() == [1.0, 1.0]
    assert slopes(ratio(piece), current)[:2] == [0.0, 0.0]


def test_an_empty_row_has_a_ratio_of_one_and_no_weight():
    _, fixture = method_fixtures("M37")
    _, piece = piece_of([fixture.input["log_ratio"]], mask=[fixture.input["mask"]])
    assert sequence_mean_ratio(piece).tolist() == [fixture.expect["s"]] * 3
    from tests.algorithms.pieces import credit_inputs

    assert float(ResponseMean()(credit_inputs([0.0], lengths=[0]), None).sum()) == fixture.expect["row_weight"]


@pytest.mark.parametrize("ratio", [sequence_product_ratio, sequence_mean_ratio])
def test_gradients_of_whole_rows_are_those_of_finite_differences(ratio):
    rows, mask = [[0.02, 0.1, -0.3], [0.5, -0.2]], [[1, 0, 1], [1, 1]]
    current, piece = piece_of(rows, mask=mask)
    found = slopes(ratio(piece), current)
    step = 1e-6
    flat = current.detach()
    for place in range(len(flat)):
        moved = [flat.clone(), flat.clone()]
        moved[0][place] += step
        moved[1][place] -= step
        high, low = (
            float(ratio(piece_of([m[:3].tolist(), m[3:].tolist()], mask=mask)[1]).detach().sum()) for m in moved
        )
        assert found[place] == pytest.approx((high - low) / (2 * step), abs=1e-8)


def test_the_token_form_has_the_value_of_the_row_and_the_gradient_of_the_token():
    current, piece = piece_of([[0.02, 0.1, -0.3]])
    value = float(sequence_mean_ratio(piece)[0].detach())
    found = sequence_token_ratio(piece)
    assert found.tolist() == pytest.approx([value] * 3)
    weighed = (found * torch.tensor([1.0, 2.0, 0.0], dtype=torch.float64)).sum()
    (gradient,) = torch.autograd.grad(weighed, current)
    assert gradient.tolist() == pytest.approx([value, 2 * value, 0.0])


def test_under_one_advantage_and_even_weights_both_forms_have_one_gradient():
    for advantage in (1.0, -1.0):
        gradients = []
        for ratio in (sequence_mean_ratio, sequence_token_ratio):
            current, piece = piece_of([[0.02, 0.1, -0.3], [0.4, 0.1]])
            weights = torch.tensor([1 / 6] * 3 + [1 / 4] * 2, dtype=torch.float64)
            gradients.append(slopes(weights * advantage * ratio(piece), current))
        assert gradients[0] == pytest.approx(gradients[1])


def test_beyond_their_bounds_ratios_are_finite_and_have_no_gradient():
    for log_ratio, ratio, due in (
        (3.0, sequence_product_ratio, 20.0),
        (-3.0, sequence_product_ratio, -20.0),
        (11.0, sequence_mean_ratio, 10.0),
        (11.0, sequence_token_ratio, 10.0),
    ):
        current, piece = piece_of([[log_ratio] * 10])
        assert ratio(piece).log().tolist() == pytest.approx([due] * 10)
        assert slopes(ratio(piece), current) == [0.0] * 10


@ratios
def test_over_behavior_staleness_is_in_the_ratio(ratio):
    _, piece = piece_of([[0.1, 0.3]], below="behavior")
    assert partial(ratio, over="behavior")(piece).tolist() == pytest.approx(ratio(piece_of([[0.1, 0.3]])[1]).tolist())


@ratios
def test_what_stands_under_the_mask_reaches_neither_value_nor_gradient(ratio):
    clean, piece = piece_of([[0.1, 0.0, 0.3]], mask=[[1, 0, 1]])
    for poison in (float("nan"), float("inf"), 1e30):
        current, poisoned = piece_of([[0.1, poison, 0.3]], mask=[[1, 0, 1]])
        assert torch.equal(ratio(poisoned), ratio(piece))
        assert slopes(ratio(poisoned), current) == slopes(ratio(piece), clean)


def test_many_small_steps_behind_a_large_one_are_not_lost_in_a_long_row_of_float32():
    # Beside 16 a float32 cannot hold 5e-7: summed in float32, all 40,000 of them vanish.
    steps = torch.full((40_001,), 5e-7, dtype=torch.float32)
    steps[0] = 16.0
    row = TokenStreams(
        row_offsets=torch.tensor([0, len(steps)]),
        action_mask=torch.ones(len(steps), dtype=torch.bool),
        advantages=torch.ones(len(steps)),
        token_weights=torch.zeros(len(steps), dtype=torch.float64),
        policy_versions=torch.zeros(len(steps), dtype=torch.int32),
        logprobs={"current": torch.zeros(len(steps)), "proximal": -steps},
        values={},
    )
    exact = math.exp(math.fsum(float(step) for step in steps))
    assert float(sequence_product_ratio(row)[0]) == pytest.approx(exact, rel=1e-4)
