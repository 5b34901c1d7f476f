"""Ages of tokens and rows, and the runs that they are stored as (M107, M109, M112)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.staleness.lag import lag_of, row_lag, rows_within, token_lags, tokens_within
from rollwright.algorithms.staleness.version_runs import VersionRun, expand_versions

version_lists = st.lists(st.integers(0, 9), min_size=1, max_size=12)


@given(version_lists)
def test_a_row_is_as_old_as_its_oldest_token(versions):
    lag = row_lag(versions, learner_version=9)
    assert lag.oldest == 9 - min(versions)
    assert lag.newest == 9 - max(versions)
    assert lag.mean == pytest.approx(9 - np.mean(versions))
    assert lag.num_versions == len(set(versions))


def test_tokens_that_nothing_sampled_have_no_age():
    assert token_lags([-1, 3, 5], learner_version=5).tolist() == [-1, 2, 0]
    assert row_lag([-1, -1], learner_version=5).num_versions == 0
    assert row_lag([], learner_version=5).oldest == 0
    assert row_lag([-1, 3], learner_version=5) == row_lag([3], learner_version=5)
    assert tokens_within([-1, 3, 5], learner_version=5, max_lag=9).tolist() == [False, True, True]


def test_an_age_on_the_bound_is_inside():
    assert rows_within([0, 4, 5], max_lag=4).tolist() == [True, True, False]
    assert tokens_within([5, 4], learner_version=9, max_lag=4).tolist() == [True, False]
    mixed = row_lag([5, 9, 9, 9], learner_version=9)
    assert not rows_within([mixed.oldest], max_lag=1)[0]
    assert rows_within([mixed.mean], max_lag=1)[0]


def test_weights_from_the_future_are_refused():
    with pytest.raises(ObjectiveError, match="policy version 7; the newest weights that stand are version 5"):
        token_lags([3, 7], learner_version=5)
    with pytest.raises(ObjectiveError):
        lag_of(6, learner_version=5)
    assert lag_of(5, learner_version=5) == 0


@given(version_lists)
def test_runs_expand_to_the_versions_that_they_were_made_of(versions):
    ends = [i + 1 for i in range(len(versions)) if i + 1 == len(versions) or versions[i + 1] != versions[i]]
    starts = [0, *ends[:-1]]
    runs = [VersionRun(version=versions[a], start=a, stop=b) for a, b in zip(starts, ends, strict=True)]
    assert expand_versions(runs[::-1], num_tokens=len(versions)).tolist() == versions


@pytest.mark.parametrize(
    "bounds", [[(0, 3), (4, 6)], [(0, 3), (2, 6)], [(1, 6)], [(0, 5)], [(0, 7)], [(0, 0), (0, 6)], []]
)
def test_runs_that_miss_or_repeat_a_token_are_refused(bounds):
    with pytest.raises(ObjectiveError, match="every token once"):
        expand_versions([VersionRun(version=1, start=a, stop=b) for a, b in bounds], num_tokens=6)
