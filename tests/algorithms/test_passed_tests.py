"""Rewards from tests that passed (M115)."""

import pytest

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.rewards.passed_tests import all_tests_passed, repository_reward, share_of_tests


def test_all_or_nothing_and_a_share():
    assert [all_tests_passed(passed, 3) for passed in range(4)] == [0, 0, 0, 1]
    assert [share_of_tests(passed, 4) for passed in range(5)] == [0, 0.25, 0.5, 0.75, 1]


@pytest.mark.row("S384")
def test_a_repository_pays_for_every_required_test_and_a_regression_takes_it_all():
    lists = {"fail_to_pass": ["new_a", "new_b"], "pass_to_pass": ["old"]}
    assert repository_reward({"new_a": True, "new_b": True, "old": True, "other": False}, **lists) == 1
    assert repository_reward({"new_a": True, "new_b": True, "old": False}, **lists) == 0
    assert repository_reward({"new_a": True, "new_b": False, "old": True}, **lists) == 0


def test_a_required_test_that_was_not_seen_did_not_pass():
    assert repository_reward({"new": True}, fail_to_pass=["new"], pass_to_pass=["old"]) == 0
    assert repository_reward({"new": True}, fail_to_pass=["new"], pass_to_pass=[]) == 1


def test_no_test_is_no_reward():
    with pytest.raises(ObjectiveError, match="0 of 0 tests"):
        share_of_tests(0, 0)
    with pytest.raises(ObjectiveError, match="5 of 4 tests"):
        all_tests_passed(5, 4)
    with pytest.raises(ObjectiveError, match="no test has to begin to pass"):
        repository_reward({}, fail_to_pass=[], pass_to_pass=["old"])
