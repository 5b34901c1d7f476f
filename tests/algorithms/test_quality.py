"""Rubric rewards, and advantage that moves among passing attempts."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.groups import UNSCORED, ZERO_CONTRAST
from rollwright.algorithms.credit.quality import (
    redistribute_by_quality,
    reject_hacks,
    rewards_without_hacks,
    rubric_reward,
)
from rollwright.algorithms.errors import ObjectiveError
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture, method_fixtures


def rows(rewards, quality, *, hacks=None, groups=None, episodes=None):
    inputs = credit_inputs(rewards, groups=groups, episodes=episodes)
    graded = [float("nan") if one is None else float(one) for one in quality]
    values = {"quality": graded, "is_hack": hacks or [0.0] * len(rewards)}
    return replace(inputs, values={name: torch.tensor(one, dtype=torch.float64) for name, one in values.items()})


uncapped = partial(redistribute_by_quality, max_scale=torch.inf)


@pytest.mark.parametrize("worked", method_fixtures("M29"), ids=lambda one: one.id)
def test_redistribution_matches_the_worked_numbers(worked):
    cap = torch.inf if worked.input["cap"] == "inf" else worked.input["cap"]
    inputs = rows(worked.input["R"], worked.input["f"], hacks=worked.input.get("hack"))
    credit = reject_hacks(inputs, credit=partial(redistribute_by_quality, max_scale=cap))
    assert credit.advantages.tolist() == pytest.approx(worked.expect["A"], abs=worked.tol)


@pytest.mark.row("S302")
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.floats(0.01, 1.0)), min_size=2, max_size=8),
    st.sampled_from([1.0, 1.2, torch.inf]),
)
def test_the_positive_mass_of_passing_rows_never_grows_and_is_kept_without_a_cap(drawn, cap):
    inputs = rows([reward for reward, _ in drawn], [quality for _, quality in drawn])
    before = center_within_group(inputs).advantages
    found = redistribute_by_quality(inputs, max_scale=cap).advantages
    assert abs(float(found.sum())) < 1e-9
    assert float(found.clamp(min=0).sum()) <= float(before.clamp(min=0).sum()) + 1e-9
    # The last step subtracts a mean: with it added back, failing rows are as before, and passing ones share their mass.
    passing = inputs.rewards == 1
    shift = (before - found)[~passing].mean() if bool((~passing).any()) else 0.0
    moved = (found + shift)[passing]
    assert float(moved.sum()) <= float(before[passing].sum()) + 1e-9
    if cap == torch.inf:
        assert float(moved.sum()) == pytest.approx(float(before[passing].sum()), abs=1e-9)


@pytest.mark.row("S302")
def test_a_confirmed_hack_scores_0_before_any_statistic():
    inputs = rows([1.0, 1.0, 1.0, None], [1.0, 1.0, 1.0, 1.0], hacks=[0.0, 0.0, 1.0, 1.0])
    assert rewards_without_hacks(inputs)[:3].tolist() == [1.0, 1.0, 0.0]
    credit = reject_hacks(inputs, credit=center_within_group)
    assert credit.advantages.tolist() == pytest.approx([1 / 3, 1 / 3, -2 / 3, 0.0])
    assert credit.untrained == {3: UNSCORED}


def test_the_better_of_two_passing_attempts_gains_what_the_other_loses():
    found = uncapped(rows([1.0, 1.0, 0.0, 0.0], [1.0, 0.5, 1.0, 1.0])).advantages
    assert found[0] > 0.5 > found[1] > 0
    assert found[0] + found[1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("rewards", "quality"),
    [
        ([1.0, 1.0, 0.0], [1.0, None, 1.0]),
        ([1.0, 0.5, 0.0], [0.5, 1.0, 1.0]),
        ([1.0, 1.0, 1.0], [0.5, 1.0, 1.0]),
    ],
    ids=["a passing row has no grade", "rewards are soft", "none fails"],
)
def test_a_group_that_cannot_be_judged_is_only_centered(rewards, quality):
    inputs = rows(rewards, quality)
    assert uncapped(inputs).advantages.equal(center_within_group(inputs).advantages)


def test_a_failing_row_needs_no_grade_and_soft_rewards_need_a_rule():
    assert uncapped(rows([1.0, 1.0, 0.0, 0.0], [1.0, 0.5, None, None])).advantages.tolist() == pytest.approx(
        [2 / 3, 1 / 3, -0.5, -0.5]
    )
    soft = rows([0.9, 0.7, 0.1], [1.0, 0.5, 1.0])
    assert not uncapped(soft, passing=0.5).advantages.equal(center_within_group(soft).advantages)


def test_groups_do_not_meet_and_unscored_rows_stay_out():
    inputs = rows([1.0, 1.0, 0.0, None, 1.0, 1.0], [1.0, 0.5, 1.0, 1.0, 0.1, 0.9], groups=[0, 0, 0, 0, 1, 1])
    credit = uncapped(inputs)
    assert credit.advantages[:3].tolist() == pytest.approx([4 / 9, 2 / 9, -2 / 3])
    assert credit.advantages[3:].tolist() == [0.0, 0.0, 0.0]
    assert credit.untrained == {3: UNSCORED, 4: ZERO_CONTRAST, 5: ZERO_CONTRAST}


def test_an_episode_counts_once_however_many_rows_it_has():
    once = uncapped(rows([1.0, 1.0, 0.0], [1.0, 0.5, 1.0])).advantages
    split = uncapped(rows([1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.5, 1.0], episodes=[0, 0, 1, 2])).advantages
    assert split.tolist() == pytest.approx(once[torch.tensor([0, 0, 1, 2])].tolist())


def test_a_failing_test_stays_0_and_passing_attempts_differ_again():
    worked = method_fixture("M28.a")
    parts = [torch.tensor(worked.input[name], dtype=torch.float64) for name in ("test", "solution", "behavior")]
    assert rubric_reward(*parts).tolist() == pytest.approx(worked.expect["R"])
    ungraded = rubric_reward(torch.tensor([1.0, torch.nan]), torch.tensor([torch.nan, 0.5]), torch.ones(2))
    assert ungraded.isnan().all()
    with pytest.raises(ObjectiveError, match=r"the solution score of rows \[0\] lies outside \[0, 1\]"):
        rubric_reward(torch.ones(1), torch.tensor([1.1]), torch.ones(1))


def test_numbers_outside_their_range_are_refused():
    with pytest.raises(ObjectiveError, match="MiMo-V2.6 did not disclose it"):
        redistribute_by_quality(rows([1.0, 0.0], [1.0, 1.0]))
    with pytest.raises(ObjectiveError, match="at least 1"):
        redistribute_by_quality(rows([1.0, 0.0], [1.0, 1.0]), max_scale=0.5)
    with pytest.raises(ObjectiveError, match=r"quality of rows \[1\] lies outside \(0, 1\]"):
        uncapped(rows([1.0, 0.0], [1.0, 0.0]))
