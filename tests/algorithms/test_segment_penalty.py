"""Blame for flagged tokens, at equal mass."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.segment_penalty import SegmentFactors, penalize_segments, segment_factors
from rollwright.algorithms.errors import ObjectiveError
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def rows(flags, rewards=(1.0, 0.0)):
    inputs = credit_inputs(list(rewards), lengths=[len(row) for row in flags])
    flat = torch.tensor([flag for row in flags for flag in row], dtype=torch.float64)
    return replace(inputs, values={"is_flagged": flat})


open_ended = partial(penalize_segments, credit=center_within_group, kappa=2.0, alpha_max=torch.inf, beta_min=0.0)


def test_it_matches_the_worked_numbers():
    worked = method_fixture("M30.a")
    inputs = rows([worked.input["flag_pos"], worked.input["flag_neg"]])
    found = open_ended(inputs).advantages.tolist()
    assert found == pytest.approx(worked.expect["pos"] + worked.expect["neg"], abs=worked.tol)


@pytest.mark.row("S303")
@given(
    st.lists(st.sampled_from([0, 0, 0, 1]), min_size=4, max_size=12),
    st.lists(st.sampled_from([0, 0, 0, 1]), min_size=4, max_size=12),
)
def test_flagged_tokens_gain_nothing_lose_more_and_the_mass_of_each_sign_stays(positive, negative):
    positive, negative = [*positive, 0], [*negative, *[0] * len(negative)]
    inputs = rows([positive, negative])
    before, after = center_within_group(inputs).advantages, open_ended(inputs).advantages
    flagged = inputs.values["is_flagged"] == 1
    gains, losses = before > 0, before < 0
    assert not after[gains & flagged].any()
    assert (after[gains & ~flagged] >= before[gains & ~flagged]).all()
    assert after[losses & flagged].tolist() == pytest.approx((2 * before[losses & flagged]).tolist())
    assert (after[losses & ~flagged] >= before[losses & ~flagged]).all()
    assert float(after[gains].sum()) == pytest.approx(float(before[gains].sum()))
    assert float(after[losses].sum()) == pytest.approx(float(before[losses].sum()))


def test_without_flags_nothing_changes():
    inputs = rows([[0, 0], [0]])
    assert open_ended(inputs).advantages.equal(center_within_group(inputs).advantages)


def test_caps_hold_and_without_a_clean_token_there_is_no_factor():
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    flags = torch.tensor([True, False, True, False])
    factors = partial(segment_factors, kappa=3.0, alpha_max=1.5, beta_min=0.25)
    assert factors(advantages, flags) == SegmentFactors(alpha=1.5, beta=0.25)
    assert factors(advantages, torch.ones(4, dtype=torch.bool)) == SegmentFactors(alpha=1.0, beta=1.0)
    assert factors(advantages[:0], flags[:0]) == SegmentFactors(alpha=1.0, beta=1.0)


def test_an_advantage_that_is_not_finite_counts_nowhere():
    advantages = torch.tensor([1.0, torch.nan, 1.0], dtype=torch.float64)
    found = segment_factors(advantages, torch.tensor([True, True, False]), kappa=2.0, alpha_max=torch.inf, beta_min=0.0)
    assert found.alpha == 2.0


def test_reasons_of_the_credit_before_stay():
    inputs = rows([[1, 0], [0], [0, 1]], rewards=[1.0, 1.0, None])
    found = open_ended(inputs)
    assert not found.advantages.any()
    assert found.untrained == center_within_group(inputs).untrained


def test_constants_are_chosen_and_checked():
    inputs = rows([[0], [1]])
    for name, without in (
        ("kappa", partial(open_ended, kappa=None)),
        ("alpha_max", partial(open_ended, alpha_max=None)),
        ("beta_min", partial(open_ended, beta_min=None)),
    ):
        with pytest.raises(ObjectiveError, match=f"{name} has no default: MiMo-V2.6"):
            without(inputs)
    with pytest.raises(ObjectiveError, match="kappa is above 1"):
        open_ended(inputs, kappa=1.0)
