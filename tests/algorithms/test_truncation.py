"""What becomes of truncated episodes."""

from functools import partial

import pytest
import torch

from rollwright.algorithms import (
    ObjectiveError,
    center_within_group,
    exclude_truncated,
    mask_truncated,
    overlong_penalty,
    penalize_overlong,
    punish_truncated,
)
from rollwright.algorithms.credit.groups import UNSCORED
from rollwright.algorithms.credit.truncation import TRUNCATED
from tests.algorithms.pieces import credit_inputs
from tests.cases import case, method_fixture


def test_the_three_treatments_match_the_worked_numbers():
    fixture = method_fixture("M105.a")
    inputs = credit_inputs(fixture.input["R"], truncated=fixture.input["truncated"])
    found = {
        "A_negative": punish_truncated(inputs, credit=center_within_group),
        "A_mask_in_baseline": mask_truncated(inputs, credit=center_within_group),
        "A_excluded": exclude_truncated(inputs, credit=center_within_group),
    }
    for name, credit in found.items():
        assert credit.advantages.tolist() == pytest.approx(fixture.expect[name], abs=fixture.tol), name
    assert found["A_negative"].untrained == {}
    assert found["A_mask_in_baseline"].untrained == {2: TRUNCATED}
    assert found["A_excluded"].untrained == {2: TRUNCATED}


def test_negative_takes_away_what_the_verifier_gave_to_the_finished_part():
    inputs = credit_inputs([1.0, 0.0, 1.0], truncated=[0, 0, 1])
    punished = punish_truncated(inputs, credit=center_within_group).advantages
    assert punished.tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    assert punish_truncated(inputs, credit=center_within_group, reward=1.0).advantages[2] == pytest.approx(1 / 3)


def test_masked_rows_keep_their_score_in_the_baseline():
    inputs = credit_inputs([1.0, 0.0, 1.0], truncated=[0, 0, 1])
    masked = mask_truncated(inputs, credit=center_within_group).advantages
    assert masked.tolist() == pytest.approx([1 / 3, -2 / 3, 0.0])


@pytest.mark.parametrize("treat", [punish_truncated, mask_truncated, exclude_truncated])
def test_an_error_is_no_reward_even_when_truncated(treat):
    inputs = credit_inputs([1.0, 0.0, None], truncated=[0, 0, 1])
    credit = treat(inputs, credit=center_within_group)
    assert credit.advantages.tolist() == [0.5, -0.5, 0.0]
    assert credit.untrained == {2: UNSCORED}


@pytest.mark.parametrize("treat", [punish_truncated, mask_truncated, exclude_truncated])
def test_without_truncated_rows_a_treatment_changes_nothing(treat):
    inputs = credit_inputs([1.0, 0.0, 0.5], lengths=[2, 1, 3])
    plain, treated = center_within_group(inputs), treat(inputs, credit=center_within_group)
    assert plain.advantages.tolist() == treated.advantages.tolist()
    assert plain.untrained == treated.untrained


@pytest.mark.row("S162")
def test_soft_penalty_at_the_documented_lengths():
    lengths = torch.tensor([16_384, 18_432, 20_480, 20_481])
    assert overlong_penalty(lengths, max_tokens=20_480, buffer_tokens=4_096).tolist() == [0.0, -0.5, -1.0, -1.0]


def test_soft_penalty_matches_the_worked_numbers():
    fixture = method_fixture("M87.a")
    found = overlong_penalty(
        torch.tensor(fixture.input["len"]),
        max_tokens=fixture.input["L_max"],
        buffer_tokens=fixture.input["L_cache"],
    )
    assert found.tolist() == pytest.approx(fixture.expect["r_len"], abs=fixture.tol)


@pytest.mark.case("F72")
def test_soft_penalty_counts_action_tokens_and_is_added_once_before_credit():
    given_case = case("F72")
    limits = {"max_tokens": given_case.input["max_len"], "buffer_tokens": given_case.input["buffer"]}
    lengths = given_case.input["lengths"]
    assert overlong_penalty(torch.tensor(lengths), **limits).tolist() == pytest.approx(given_case.expect["penalty"])
    inputs = credit_inputs([1.0] * len(lengths), lengths=lengths)
    shaped = credit_inputs([1.0 + penalty for penalty in given_case.expect["penalty"]], lengths=lengths)
    found = penalize_overlong(inputs, credit=center_within_group, **limits).advantages
    assert torch.allclose(found, center_within_group(shaped).advantages, atol=1e-12)


def test_the_form_of_public_code_falls_on_beyond_the_limit_and_has_a_depth():
    lengths = torch.tensor([16, 18, 20, 24])
    assert overlong_penalty(lengths, max_tokens=20, buffer_tokens=4, beyond="falling").tolist() == [0, -0.5, -1, -2]
    assert overlong_penalty(lengths, max_tokens=20, buffer_tokens=4, factor=0.5).tolist() == [0, -0.25, -0.5, -0.5]
    inputs = credit_inputs([1.0, 1.0], lengths=[16, 24])
    found = penalize_overlong(
        inputs, credit=center_within_group, max_tokens=20, buffer_tokens=4, factor=2.0, beyond="falling"
    )
    assert [float(found.advantages[0]), float(found.advantages[-1])] == [2.0, -2.0]
    with pytest.raises(ObjectiveError, match="factor -1"):
        overlong_penalty(lengths, max_tokens=20, buffer_tokens=4, factor=-1.0)


def test_a_buffer_longer_than_the_limit_is_refused():
    with pytest.raises(ObjectiveError, match="width of the ramp"):
        overlong_penalty(torch.tensor([3]), max_tokens=20, buffer_tokens=80)


def test_stages_nest():
    inputs = credit_inputs([1.0, 1.0, 0.0], lengths=[4, 10, 4], truncated=[0, 1, 0])
    shaped = partial(penalize_overlong, credit=center_within_group, max_tokens=10, buffer_tokens=5)
    credit = mask_truncated(inputs, credit=shaped)
    assert credit.untrained == {1: TRUNCATED}
    assert credit.advantages[0] == pytest.approx(1.0 - 1 / 3)
    assert not credit.advantages[4:14].any()
