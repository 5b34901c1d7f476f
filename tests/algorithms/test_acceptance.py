"""Exactly once, and candidates that must shrink the gap (M114)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.staleness.acceptance import accept_once
from rollwright.algorithms.staleness.candidate_gate import GapGate


@given(st.lists(st.sampled_from("abcdef")), st.frozensets(st.sampled_from("abcdef")))
def test_each_id_is_accepted_once_and_every_other_delivery_refused(deliveries, before):
    accepted = accept_once(deliveries, before=before)
    assert set(accepted.ids) == set(deliveries) - before
    assert len(accepted.ids) == len(set(accepted.ids))
    assert len(accepted.ids) + accepted.refused == len(deliveries)


def test_a_candidate_is_rejected_where_the_gap_to_the_engine_grows_and_accepted_where_it_shrinks():
    gate = GapGate(metric="mismatch/logp_abs")
    gaps = [0.10, 0.12, 0.10, 0.08, float("nan"), 0.09]
    assert [gate.accept_candidate({"mismatch/logp_abs": gap}) for gap in gaps] == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]
    resumed = GapGate(metric="mismatch/logp_abs")
    assert resumed.state() == {}
    resumed.restore(gate.state())
    assert not resumed.accept_candidate({"mismatch/logp_abs": 0.085})


def test_the_gap_is_named_and_measured():
    with pytest.raises(ObjectiveError, match="metric has no default: the abstract of MIPU"):
        GapGate()
    with pytest.raises(ObjectiveError, match="the gate compares gap"):
        GapGate(metric="gap").accept_candidate({"loss": 1.0})
    assert not GapGate(metric="gap").accept_candidate({"gap": float("nan")})
