"""The gated quantile penalty."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError, imitate
from rollwright.algorithms.regularizers.quantile_penalty import (
    QuantileGate,
    gated_quantile_penalty,
    passing_length,
    quantile_penalties,
)
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture

CONSTANTS = {
    "penalty": 0.5,
    "percentile": 50.0,
    "slack": 0.1,
    "saturation": 1.0,
    "power": 2.0,
    "min_pass_rate": 0.5,
}


def gate(**changes):
    return QuantileGate(**{**CONSTANTS, **changes})


def test_it_matches_the_worked_numbers():
    fixture = method_fixture("M89.a")
    given_gate = gate(
        penalty=fixture.input["X"],
        percentile=fixture.input["percentile"],
        slack=fixture.input["delta"],
        saturation=fixture.input["s"],
        power=fixture.input["gamma"],
        min_pass_rate=fixture.input["A_min"],
    )
    inputs = credit_inputs(fixture.input["R"], lengths=[int(one) for one in fixture.input["len"]])
    seen = []
    gated_quantile_penalty(inputs, credit=lambda shaped: seen.append(shaped) or imitate(shaped), gate=given_gate)
    assert seen[0].rewards.tolist() == pytest.approx(fixture.expect["R_out"])
    lengths = inputs.row_offsets.diff()
    assert float(passing_length(lengths, inputs, given_gate)[0]) == fixture.expect["l_star"]


def test_the_gate_is_strict():
    # Half of the group passes, which is not above one half.
    inputs = credit_inputs([1, 1, 0, 0])
    lengths = torch.tensor([10, 100, 10, 10])
    assert not quantile_penalties(lengths, inputs, gate()).any()
    # ℓ* = 55: the whole ramp from 60.5 to 110 tokens, at 100.
    due = 0.5 * ((100 / 55 - 1.1) / 0.9) ** 2
    found = quantile_penalties(lengths, inputs, gate(min_pass_rate=0.49))
    assert found.tolist() == pytest.approx([0.0, due, 0.0, 0.0])


def test_without_a_passing_row_it_is_off():
    assert not quantile_penalties(torch.tensor([10, 90]), credit_inputs([0, 0.5]), gate(min_pass_rate=0.0)).any()


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, None]), st.integers(0, 500)), min_size=1, max_size=12))
def test_it_touches_passing_rows_alone_and_never_more_than_its_size(rows):
    inputs = credit_inputs([row[0] for row in rows])
    penalties = quantile_penalties(torch.tensor([row[1] for row in rows]), inputs, gate())
    assert ((penalties >= 0) & (penalties <= 0.5)).all()
    assert not penalties[~(inputs.rewards >= 1.0)].any()


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_that_was_left_out_says_who_kept_it(name):
    with pytest.raises(ObjectiveError, match=f"{name} has no default: the report on MiMo"):
        gate(**{name: None})


@pytest.mark.parametrize("changes", [{"slack": -0.1}, {"saturation": 0.1}, {"power": 0.5}])
def test_a_ramp_that_does_not_rise_is_refused(changes):
    with pytest.raises(ObjectiveError, match="saturation above slack"):
        gate(**changes)
