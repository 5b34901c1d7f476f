"""Denominators: worked weights, closed forms, and the faults that public trainers have had."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import (
    FixedLength,
    ObjectiveError,
    PromptMean,
    ResponseMean,
    SequenceSum,
    TokenMean,
    dr_grpo,
    loss_terms,
    row_lengths,
    supervised,
)
from rollwright.algorithms.credit.groups import broadcast_to_tokens
from tests.algorithms.pieces import credit_inputs
from tests.algorithms.test_ratio_and_clip import streams
from tests.cases import case, method_fixture

RULES = {
    "token_mean": TokenMean,
    "response_mean": ResponseMean,
    "fixed_length": lambda **options: FixedLength(length=8, **options),
    "sequence_sum": SequenceSum,
    "prompt_mean": PromptMean,
    "prompt_mean_within_token": lambda **options: PromptMean(within="token", **options),
}
rules = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())

rows = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=0, max_size=8)


def inputs_of(lengths, groups=None):
    return credit_inputs([0.0] * len(lengths), lengths=lengths, groups=groups)


def by_row(weights, lengths):
    return [part.tolist() for part in weights.split(list(lengths))]


def loss_of(rule, per_token_loss):
    lengths = [len(row) for row in per_token_loss]
    flat = torch.tensor([loss for row in per_token_loss for loss in row], dtype=torch.float64)
    return float((rule(inputs_of(lengths), None) * flat).sum())


@pytest.mark.parametrize(
    ("fixture_id", "rule"),
    [
        ("M72.a", ResponseMean()),
        ("M73.a", TokenMean()),
        ("M74.a", FixedLength(length=8)),
        ("M75.a", SequenceSum()),
    ],
)
def test_weights_match_the_worked_numbers(fixture_id, rule):
    fixture = method_fixture(fixture_id)
    lengths = fixture.input["len"]
    found = by_row(rule(inputs_of(lengths), None), lengths)
    for row, weight, mass in zip(found, fixture.expect["token_weight"], fixture.expect["row_mass"], strict=True):
        assert row == pytest.approx([weight] * len(row), abs=fixture.tol)
        assert sum(row) == pytest.approx(mass, abs=fixture.tol)


@pytest.mark.parametrize(
    ("within", "weights", "masses"),
    [
        ("response", "token_weight_response", "prompt_mean_of_response_mean_row_mass"),
        ("token", "token_weight_token", "prompt_mean_of_token_mean_row_mass"),
    ],
)
def test_prompt_mean_matches_the_worked_numbers(within, weights, masses):
    fixture = method_fixture("M76.a")
    lengths = fixture.input["len"]
    found = by_row(PromptMean(within=within)(inputs_of(lengths, fixture.input["prompt"]), None), lengths)
    assert [row[0] for row in found] == pytest.approx(fixture.expect[weights], abs=fixture.tol)
    assert [sum(row) for row in found] == pytest.approx(fixture.expect[masses], abs=fixture.tol)


@rules
@given(drawn=rows, data=st.data())
def test_weights_sum_to_their_closed_form(rule, drawn, data):
    lengths, groups = [length for length, _ in drawn], [group for _, group in drawn]
    inputs = inputs_of(lengths, groups)
    keep = torch.tensor(
        data.draw(st.lists(st.booleans(), min_size=sum(lengths), max_size=sum(lengths))), dtype=torch.bool
    )
    for made, kept in ((rule(), None), (rule(counting="kept"), keep)):
        weights = made(inputs, kept)
        assert weights.shape == (sum(lengths),)
        assert (weights >= 0).all()
        due = made.weight_sum(row_lengths(inputs, kept))
        assert float(weights.sum()) == pytest.approx(due, abs=1e-12)
        if kept is not None:
            assert not weights[~kept].any()
        counted = sum(lengths) if kept is None else int(keep.sum())
        assert (made.denominator(row_lengths(inputs, kept)) > 0) == (counted > 0)


@rules
@given(drawn=rows, place=st.integers(0, 8), group=st.integers(0, 3))
def test_a_row_without_tokens_counts_nowhere(rule, drawn, place, group):
    longer = [*drawn[:place], (0, group), *drawn[place:]]
    narrow, wide = (
        rule()(inputs_of([length for length, _ in some], [g for _, g in some]), None) for some in (drawn, longer)
    )
    assert narrow.tolist() == wide.tolist()


@given(drawn=rows)
def test_a_wrong_denominator_is_found_by_the_closed_form(drawn):
    """The gate of the survey's first level: weights made by one rule fail the sum of another wherever they differ."""
    inputs = inputs_of([length for length, _ in drawn])
    sums = row_lengths(inputs, None)
    for made in (TokenMean(), FixedLength(length=3), SequenceSum()):
        for claimed in (TokenMean(), FixedLength(length=3), SequenceSum()):
            is_passing = abs(float(made(inputs, None).sum()) - claimed.weight_sum(sums)) < 1e-9
            assert is_passing == (abs(made.weight_sum(sums) - claimed.weight_sum(sums)) < 1e-9)


def test_structural_and_kept_denominators():
    fixture = method_fixture("M80.a")
    lengths, kept = fixture.input["len"], fixture.input["kept"]
    keep = torch.cat([torch.arange(n) < k for n, k in zip(lengths, kept, strict=True)])
    value = fixture.input["J"] * keep
    structural = float((TokenMean()(inputs_of(lengths), None) * value).sum())
    renormalised = float((TokenMean(counting="kept")(inputs_of(lengths), keep) * value).sum())
    assert structural == pytest.approx(fixture.expect["structural_denominator"], abs=fixture.tol)
    assert renormalised == pytest.approx(fixture.expect["renormalised_over_kept"], abs=fixture.tol)


@rules
def test_the_counting_rule_decides_whether_a_keep_mask_is_due(rule):
    with pytest.raises(ObjectiveError, match="structural"):
        rule()(inputs_of([1]), torch.ones(1, dtype=torch.bool))
    with pytest.raises(ObjectiveError, match="needs the keep mask"):
        rule(counting="kept")(inputs_of([1]), None)


def test_a_fixed_length_of_zero_is_refused():
    with pytest.raises(ObjectiveError, match="at least 1"):
        FixedLength(length=0)


@pytest.mark.parametrize("fixture_id", ["M79.a"])
def test_token_mean_is_one_division_by_the_whole_update(fixture_id):
    fixture = method_fixture(fixture_id)
    losses = fixture.input["loss_per_token"]
    pieces = [losses[:2], losses[2:]]
    assert [len(piece) for piece in pieces] == fixture.input["micro"]
    assert loss_of(TokenMean(), pieces) == pytest.approx(fixture.expect["global_token_mean"], abs=fixture.tol)


@pytest.mark.case("F01")
def test_token_mean_uses_the_count_of_the_whole_window():
    given_case = case("F01")
    losses = given_case.input["micro_batches_per_token_loss"]
    lengths = [len(micro) for micro in losses]
    found = by_row(TokenMean()(inputs_of(lengths), None), lengths)
    assert found == given_case.expect["grad_weight_per_token"]
    partial_sums = [
        sum(weight * loss for weight, loss in zip(*pair, strict=True)) for pair in zip(found, losses, strict=True)
    ]
    assert sum(partial_sums) == pytest.approx(given_case.expect["loss"])


@pytest.mark.case("F02")
def test_nothing_is_divided_again_by_the_number_of_pieces():
    given_case = case("F02")
    counts, sums = given_case.input["micro_batch_tokens"], given_case.input["micro_batch_loss_sums"]
    weights = by_row(TokenMean()(inputs_of(counts), None), counts)
    pieces = [row[0] * total for row, total in zip(weights, sums, strict=True)]
    assert sum(pieces) == pytest.approx(given_case.expect["loss"])
    whole = TokenMean()(inputs_of([sum(counts)]), None)
    assert weights[0][0] / float(whole[0]) == given_case.expect["effective_gradient_scale_vs_accum_1"]


@pytest.mark.case("F06")
def test_fixed_length_divides_by_the_constant_of_the_recipe_at_any_width():
    given_case = case("F06")
    losses, masks = given_case.input["per_token_loss"], given_case.input["mask"]
    rule = FixedLength(length=given_case.input["constant"])
    lengths = [sum(mask) for mask in masks]
    assert rule.denominator(row_lengths(inputs_of(lengths), None)) == 2 * given_case.input["constant"]
    objective = replace(supervised(), weights=rule)
    for width in given_case.input["also_padded_to_widths"]:
        mask = torch.tensor([row + [0] * (width - len(row)) for row in masks], dtype=torch.bool).flatten()
        padded = torch.tensor([row + [9.0] * (width - len(row)) for row in losses], dtype=torch.float64).flatten()
        weights = torch.zeros(len(mask), dtype=torch.float64).masked_scatter(mask, rule(inputs_of(lengths), None))
        piece = streams([1.0] * len(mask), mask=mask.tolist(), current=-padded)
        found = loss_terms(objective, replace(piece, token_weights=weights), {})
        assert float(found.loss) == pytest.approx(given_case.expect["loss"])


@pytest.mark.case("F07")
def test_token_mean_and_response_mean_differ_and_are_named():
    given_case = case("F07")
    losses = given_case.input["per_token_loss"]
    lengths = given_case.input["lengths"]
    for rule in (TokenMean(), ResponseMean()):
        assert loss_of(rule, losses) == pytest.approx(given_case.expect[rule.name])
        found = by_row(rule(inputs_of(lengths), None), lengths)
        for row, due in zip(found, given_case.expect["per_token_weight"][rule.name], strict=True):
            assert row == pytest.approx(due)


@pytest.mark.case("F09")
def test_the_denominator_counts_trained_tokens_not_the_response():
    given_case = case("F09")
    mask = given_case.input["loss_mask"]
    trained = [loss for loss, is_action in zip(given_case.input["per_token_loss"], mask, strict=True) if is_action]
    assert loss_of(TokenMean(), [trained]) == given_case.expect["loss"]
    assert TokenMean().denominator(row_lengths(inputs_of([len(trained)]), None)) == given_case.expect["denominator"]


@pytest.mark.case("F12")
def test_a_partial_last_window_is_divided_by_its_own_count():
    given_case = case("F12")
    size = given_case.input["grad_accum_steps"]
    tokens, sums = given_case.input["tokens"], given_case.input["loss_sums"]
    windows = [slice(start, start + size) for start in range(0, given_case.input["micro_batches"], size)]
    assert len(windows) == given_case.expect["optimizer_steps"]
    for window, due in zip(windows, given_case.expect["window_losses"], strict=True):
        weights = by_row(TokenMean()(inputs_of(tokens[window]), None), tokens[window])
        assert sum(w[0] * total for w, total in zip(weights, sums[window], strict=True)) == pytest.approx(due)


@pytest.mark.case("F131")
def test_values_of_rows_reach_tokens_by_row_also_in_a_square_batch():
    given_case = case("F131")
    inputs = credit_inputs([0.0, 0.0], lengths=[given_case.input["T"]] * given_case.input["B"])
    per_row = torch.tensor(given_case.input["per_sequence_weight_B"], dtype=torch.float64)
    flat = torch.tensor(given_case.input["per_token_loss_BT"], dtype=torch.float64).flatten()
    weighted = broadcast_to_tokens(per_row, inputs.row_offsets) * flat
    assert [float(part.sum()) for part in weighted.split(given_case.input["T"])] == given_case.expect["sequence_sums"]
    with pytest.raises(ObjectiveError, match="give one a row"):
        broadcast_to_tokens(flat, inputs.row_offsets)


@pytest.mark.row("S159")
def test_dr_grpo_has_a_fixed_denominator_and_no_std():
    objective = dr_grpo(max_tokens=8)
    lengths = [2, 8]
    inputs = credit_inputs([1.0, 0.0], lengths=lengths)
    assert [sum(row) for row in by_row(objective.weights(inputs, None), lengths)] == [0.125, 0.5]
    plain = objective.credit(inputs).advantages
    stretched = objective.credit(credit_inputs([10.0, 0.0], lengths=lengths)).advantages
    assert torch.equal(stretched, 10.0 * plain)


@pytest.mark.row("S163")
def test_token_mean_mass_and_splitting_an_action():
    lengths = [2, 8]
    masses = [sum(row) for row in by_row(TokenMean()(inputs_of(lengths), None), lengths)]
    assert masses == pytest.approx([0.2, 0.8])
    # One action of eight tokens as two spans of three and five: another row, the same loss.
    losses = [[1.0, 3.0], [float(token) for token in range(8)]]
    split = [losses[0], losses[1][:3], losses[1][3:]]
    assert loss_of(TokenMean(), split) == pytest.approx(loss_of(TokenMean(), losses), abs=1e-7)


@pytest.mark.row("S164")
def test_response_mean_mass_and_duplicated_tokens():
    lengths = [2, 8]
    masses = [sum(row) for row in by_row(ResponseMean()(inputs_of(lengths), None), lengths)]
    assert masses == pytest.approx([0.5, 0.5])
    losses = [[1.0, 3.0], [float(token) for token in range(8)]]
    doubled = [losses[0], [loss for loss in losses[1] for _ in range(2)]]
    assert loss_of(ResponseMean(), doubled) == pytest.approx(loss_of(ResponseMean(), losses), abs=1e-12)
