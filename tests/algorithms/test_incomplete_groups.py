"""Groups in which attempts failed for good (M111)."""

import pytest

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.staleness.incomplete_groups import fate_of_group


@pytest.mark.parametrize(
    ("rule", "survivors", "fate"),
    [
        ("wait", 0, "wait"),
        ("wait", 7, "wait"),
        ("wait", 8, "train"),
        ("train", 0, "drop"),
        ("train", 1, "train"),
        ("drop", 3, "drop"),
        ("drop", 4, "train"),
        ("drop", 0, "drop"),
        ("pad", 3, "drop"),
        ("pad", 4, "pad"),
        ("pad", 8, "train"),
    ],
)
def test_each_rule_has_one_fate_for_each_number_of_survivors(rule, survivors, fate):
    assert fate_of_group(rule, survivors=survivors, group_size=8, min_fraction=0.5) == fate


def test_a_group_without_a_survivor_is_never_trained_however_low_the_threshold_is():
    assert fate_of_group("drop", survivors=0, group_size=8, min_fraction=0.0) == "drop"


def test_the_threshold_is_chosen_where_the_rule_has_one():
    with pytest.raises(ObjectiveError, match="min_fraction has no default: GLM-5"):
        fate_of_group("pad", survivors=3, group_size=8)
    assert fate_of_group("train", survivors=3, group_size=8) == "train"
    with pytest.raises(ObjectiveError, match="9 survivors of a group of 8"):
        fate_of_group("train", survivors=9, group_size=8)
