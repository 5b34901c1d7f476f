"""What every credit that compares attempts or scales over a batch must hold, whatever the rewards."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.algorithms import (
    center_within_group,
    leave_one_out,
    return_to_go,
    standardize_within_group,
)
from rollwright.algorithms.catalogue.credit_groups import METHODS, PARTS
from rollwright.algorithms.credit.by_source import normalize_by_source
from rollwright.algorithms.credit.calls import broadcast_to_calls
from rollwright.algorithms.credit.comparison import compare_within
from rollwright.algorithms.credit.greedy_baseline import subtract_greedy
from rollwright.algorithms.credit.groups import UNSCORED, group_statistics
from rollwright.algorithms.credit.informative import rescale_informative
from rollwright.algorithms.credit.length_weighted import length_weighted_baseline
from rollwright.algorithms.credit.maximum_likelihood import divide_by_mean
from rollwright.algorithms.credit.optimal_token import optimal_token_baseline
from rollwright.algorithms.credit.pass_at_k import best_minus_second, pass_at_k_credit
from rollwright.algorithms.credit.roles import blend_rewards, freeze_roles
from rollwright.algorithms.credit.running_baseline import RunningBaseline
from rollwright.algorithms.credit.successes import imitate_successes
from rollwright.algorithms.credit.whitening import (
    center_then_scale_by_batch,
    center_then_whiten_tokens,
    normalize_over_tokens,
    scale_advantages,
    whiten_advantages,
    whiten_over_batch,
)
from tests.algorithms.pieces import credit_inputs

COMPARED = {
    "center_within_group": center_within_group,
    "standardize_within_group": standardize_within_group,
    "leave_one_out": leave_one_out,
    "center_then_whiten_tokens": center_then_whiten_tokens,
    "center_then_scale_by_batch": center_then_scale_by_batch,
    "length_weighted_baseline": length_weighted_baseline,
    "optimal_token_baseline": optimal_token_baseline,
    "rescale_informative": rescale_informative,
    "broadcast_to_calls": broadcast_to_calls,
    "broadcast_to_calls_by_call": partial(broadcast_to_calls, baseline="call"),
    "compare_within": partial(compare_within, credit=center_within_group, by=("dispatch", "role")),
    "divide_by_mean": divide_by_mean,
    "pass_at_k_credit": partial(pass_at_k_credit, k=2),
    "best_minus_second": partial(best_minus_second, scaling="std"),
    "normalize_by_source": partial(normalize_by_source, credit=center_within_group),
    "whiten_advantages": partial(whiten_advantages, credit=leave_one_out),
    "scale_advantages": partial(scale_advantages, credit=leave_one_out),
}
"""A group that is alone or level has no credit under these."""
UNCOMPARED = {
    "return_to_go": return_to_go,
    "whiten_over_batch": whiten_over_batch,
    "normalize_over_tokens": normalize_over_tokens,
    "subtract_greedy": subtract_greedy,
    "imitate_successes": imitate_successes,
    "blend_rewards": partial(blend_rewards, credit=return_to_go, trajectory=1.0, role=0.5, turn=0.0),
    "freeze_roles": partial(freeze_roles, credit=center_within_group, roles=(1,)),
}
ALL = {**COMPARED, **UNCOMPARED}
every = pytest.mark.parametrize("estimate", ALL.values(), ids=ALL.keys())
compared = pytest.mark.parametrize("estimate", COMPARED.values(), ids=COMPARED.keys())

few = settings(max_examples=12)
"""There are many credits, and each is drawn for by itself."""

rows = st.tuples(st.integers(0, 3).map(float) | st.none(), st.integers(0, 2), st.integers(0, 4))
"""Reward, group, action tokens."""


def inputs_of(drawn, order=None, rename=lambda group: group):
    """Rows in an order; what each row and token has beside its reward follows from the row's first place."""
    order = list(range(len(drawn))) if order is None else order
    rewards, groups, lengths = ([drawn[row][part] for row in order] for part in range(3))
    tokens = [(row, token) for row, length in zip(order, lengths, strict=True) for token in range(length)]

    def of_tokens(make):
        return torch.tensor([make(row, token) for row, token in tokens], dtype=torch.float64)

    return replace(
        credit_inputs(rewards, groups=[rename(group) for group in groups], lengths=lengths),
        source_index=torch.tensor([drawn[row][1] % 2 for row in order]),
        turn_index=of_tokens(lambda _, token: token // 2).to(torch.int64),
        logprobs={"proximal": of_tokens(lambda row, token: -0.1 - ((3 * row + token) % 7) / 3)},
        values={
            "sum_squared_probabilities": of_tokens(lambda row, token: 0.9 + ((row + token) % 5) / 50),
            "greedy_reward": torch.tensor([drawn[row][1] / 2 for row in order], dtype=torch.float64),
            "role_reward": torch.tensor([row % 3 for row in order], dtype=torch.float64),
        },
        keys={"role": torch.tensor([drawn[row][2] % 2 for row in order])},
    )


def in_rows(credit, inputs):
    return [row.tolist() for row in credit.advantages.split(inputs.row_offsets.diff().tolist())]


def test_the_battery_holds_every_credit_of_the_family():
    named = {part.make.__name__ for part in PARTS if part.role == "credit"}
    assert named == {name for name in ALL if name != "broadcast_to_calls_by_call"} | {RunningBaseline.__name__}


@every
@few
@given(drawn=st.lists(rows, min_size=1, max_size=10))
def test_credit_is_finite_and_zero_where_there_is_a_reason_against_it(estimate, drawn):
    inputs = inputs_of(drawn)
    credit = estimate(inputs)
    assert credit.advantages.shape == (int(inputs.row_offsets[-1]),)
    assert credit.advantages.dtype == torch.float64
    assert credit.advantages.isfinite().all()
    for row, values in enumerate(in_rows(credit, inputs)):
        assert row not in credit.untrained or not any(values)
        assert credit.untrained.get(row) != UNSCORED or drawn[row][0] is None
        assert drawn[row][0] is not None or row in credit.untrained


@every
@few
@given(drawn=st.lists(rows, min_size=1, max_size=8), data=st.data())
def test_order_of_rows_and_names_of_groups_do_not_matter(estimate, drawn, data):
    order = data.draw(st.permutations(range(len(drawn))))
    straight, moved = inputs_of(drawn), inputs_of(drawn, order, rename=lambda group: 50 - 9 * group)
    one, other = estimate(straight), estimate(moved)
    before, after = in_rows(one, straight), in_rows(other, moved)
    for place, row in enumerate(order):
        assert after[place] == pytest.approx(before[row], abs=1e-9)
        assert one.untrained.get(row) == other.untrained.get(place)


@every
@few
@given(drawn=st.lists(rows, min_size=1, max_size=8))
def test_an_unscored_row_of_its_own_group_changes_nothing(estimate, drawn):
    inputs, longer = inputs_of(drawn), inputs_of([*drawn, (None, 4, 3)])
    assert estimate(longer).advantages[:-3].tolist() == pytest.approx(estimate(inputs).advantages.tolist(), abs=1e-12)


@compared
@few
@given(drawn=st.lists(rows, min_size=1, max_size=10))
def test_groups_that_are_alone_or_level_have_exactly_no_credit(estimate, drawn):
    inputs = inputs_of(drawn)
    has_contrast = group_statistics(inputs).has_contrast
    for row, values in enumerate(in_rows(estimate(inputs), inputs)):
        assert has_contrast[row] or not any(values)


@every
def test_an_empty_batch_has_no_credit(estimate):
    empty = replace(
        credit_inputs([]),
        logprobs={"proximal": torch.zeros(0, dtype=torch.float64)},
        values=dict.fromkeys(("sum_squared_probabilities", "greedy_reward", "role_reward"), torch.zeros(0)),
        keys={"role": torch.zeros(0, dtype=torch.int64)},
    )
    credit = estimate(empty)
    assert credit.advantages.tolist() == []
    assert credit.untrained == {}


def test_every_method_names_functions_that_exist():
    import importlib

    for method in METHODS:
        assert method.where
        for place in method.where:
            module, name = place.split(":")
            assert callable(getattr(importlib.import_module(module), name)), place
    assert {part.method for part in PARTS} <= {method.id for method in METHODS}
