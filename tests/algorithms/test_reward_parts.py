"""Several parts of a reward as one credit (M119)."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError, center_within_group, exclude_truncated, standardize_within_group
from rollwright.algorithms.rewards.reward_parts import normalize_parts, weigh_parts
from tests.algorithms.pieces import credit_inputs

NAN = float("nan")


def with_parts(parts, *, rewards=None, **layout):
    first = next(iter(parts.values()))
    inputs = credit_inputs([0.0] * len(first) if rewards is None else rewards, **layout)
    values = {f"part/{name}": torch.tensor(values, dtype=torch.float64) for name, values in parts.items()}
    return replace(inputs, values=values)


def test_parts_of_any_scale_count_alike_once_each_is_in_units_of_its_own_spread():
    parts = {"solved": [1.0, 0.0, 0.0, 1.0], "speed": [10.0, 20.0, 40.0, 30.0]}
    scaled = {"solved": parts["solved"], "speed": [1000 * value for value in parts["speed"]]}
    weights = {"solved": 1.0, "speed": 1.0}
    small, large = (normalize_parts(with_parts(p), weights=weights, eps=0).advantages for p in (parts, scaled))
    assert torch.allclose(small, large)
    summed = weigh_parts(with_parts(scaled), weights=weights, credit=standardize_within_group).advantages
    speed_alone = standardize_within_group(credit_inputs(scaled["speed"])).advantages
    assert torch.allclose(summed, speed_alone, atol=1e-3)


def test_a_part_that_is_missing_is_passed_over_and_a_row_without_any_is_unscored():
    parts = {"a": [1.0, 0.0, NAN, NAN], "b": [NAN, 2.0, 4.0, NAN]}
    credit = weigh_parts(with_parts(parts), weights={"a": 1.0, "b": 0.5}, credit=center_within_group)
    assert credit.advantages.tolist() == pytest.approx([-1 / 3, -1 / 3, 2 / 3, 0])
    assert credit.untrained == {3: "unscored"}
    assert normalize_parts(with_parts(parts), weights={"a": 1.0, "b": 0.5}).untrained == {3: "unscored"}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=12))
def test_level_groups_stay_at_zero_and_the_others_have_mean_zero_and_spread_one(rows):
    first, second, groups = (list(column) for column in zip(*rows, strict=True))
    inputs = with_parts({"a": [float(v) for v in first], "b": [float(v) for v in second]}, groups=groups)
    credit = normalize_parts(inputs, weights={"a": 1.0, "b": 2.0}, ddof=0, eps=0)
    untrained = torch.tensor([row in credit.untrained for row in range(len(rows))])
    assert not credit.advantages[untrained].any()
    trained = credit.advantages[~untrained]
    if trained.any():
        assert float(trained.mean()) == pytest.approx(0, abs=1e-9)
        assert float(trained.std(correction=0)) == pytest.approx(1)
    for group in set(groups):
        here = [row for row, other in enumerate(groups) if other == group]
        is_level = all(len({column[row] for row in here}) == 1 for column in (first, second))
        assert all((row in credit.untrained) == is_level for row in here)


def test_parts_that_cancel_leave_no_noise():
    inputs = with_parts({"a": [0.1, 0.2, 0.7], "b": [0.1, 0.2, 0.7]})
    assert normalize_parts(inputs, weights={"a": 1.0, "b": -1.0}, eps=0).advantages.tolist() == [0, 0, 0]


def test_rows_of_one_episode_count_once_in_the_batch():
    parts = {"a": [1.0, 0.0, 0.0, 0.0]}
    once = normalize_parts(with_parts({"a": [1.0, 0.0]}), weights={"a": 1.0})
    often = normalize_parts(with_parts(parts, episodes=[0, 1, 1, 1]), weights={"a": 1.0})
    assert often.advantages[:2].tolist() == pytest.approx(once.advantages.tolist())


def test_a_truncated_row_leaves_every_part():
    inputs = with_parts({"a": [1.0, 0.0, 5.0]}, truncated=[0, 0, 1])
    credit = exclude_truncated(inputs, credit=partial(normalize_parts, weights={"a": 1.0}, ddof=0, eps=0))
    assert credit.advantages.tolist() == pytest.approx([1, -1, 0])
    assert credit.untrained == {2: "truncated"}


def test_what_is_not_there_is_named():
    inputs = with_parts({"a": [1.0, 0.0]})
    with pytest.raises(ObjectiveError, match="`part/b` values"):
        normalize_parts(inputs, weights={"b": 1.0})
    with pytest.raises(ObjectiveError, match="name at least one"):
        weigh_parts(inputs, weights={}, credit=center_within_group)
    with pytest.raises(ObjectiveError, match="ddof is 2"):
        normalize_parts(inputs, weights={"a": 1.0}, ddof=2)
    wrong = replace(inputs, values={"part/a": torch.zeros(3, dtype=torch.float64)})
    with pytest.raises(ObjectiveError, match=r"shape \(3,\)"):
        normalize_parts(wrong, weights={"a": 1.0})
    assert len(normalize_parts(with_parts({"a": []}), weights={"a": 1.0}).advantages) == 0
