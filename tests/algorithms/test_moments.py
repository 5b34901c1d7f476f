"""Moments that add over ranks, and what is scaled by them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.credit.moments import Moments, moments_of, scale, whiten
from tests.cases import case


def exact(values):
    return torch.tensor(values, dtype=torch.float64)


def added(ranks):
    first, *rest = [moments_of(exact(rank)) for rank in ranks]
    for one in rest:
        first = first + one
    return first


@pytest.mark.case("F58")
def test_mean_and_variance_are_of_the_same_tokens():
    given_case = case("F58")
    advantages, mask = exact(given_case.input["advantages"]), torch.tensor(given_case.input["mask"]).bool()
    trained = advantages[mask]
    found = whiten(trained, moments_of(trained), ddof=0, eps=given_case.input["eps"], guard="std")
    spread = torch.zeros_like(advantages).masked_scatter(mask, found)
    assert spread.flatten().tolist() == pytest.approx(
        [value for row in given_case.expect["whitened"] for value in row], abs=1e-9
    )
    assert float(found.mean()) == pytest.approx(given_case.expect["mean_over_mask"], abs=1e-12)
    assert float(found.std(correction=0)) == pytest.approx(given_case.expect["std_over_mask"])
    padded = moments_of(advantages.flatten())
    assert float(padded.mean) == given_case.expect["wrong_mean_over_padding"]


@pytest.mark.case("F59")
def test_moments_of_ranks_add_up_to_those_of_all_tokens():
    given_case = case("F59")
    ranks = given_case.input["rank_values"]
    # A rank that holds a part of a sequence, or nothing, takes part like any other.
    for division in (
        ranks,
        [*ranks, given_case.input["empty_rank"]],
        [[], *ranks],
        [ranks[0][:1], ranks[0][1:], ranks[1]],
    ):
        moments = added(division)
        assert float(moments.mean) == given_case.expect["mean"]
        assert float(moments.variance(0)) == pytest.approx(given_case.expect["variance_n"])
        for rank, due in zip(ranks, given_case.expect["whitened"], strict=True):
            found = whiten(exact(rank), moments, ddof=0, eps=0.0, guard="std")
            assert found.tolist() == pytest.approx(due, abs=1e-9)
    means = [float(moments_of(exact(rank)).mean) for rank in ranks]
    assert sum(means) / len(means) == given_case.expect["wrong_average_of_rank_means"]
    assert [bool(moments_of(exact(rank)).is_level) for rank in ranks] == [True, True]


@pytest.mark.case("F61")
def test_scaling_alone_leaves_the_mean_where_it_is():
    given_case = case("F61")
    values = exact(given_case.input["values"])
    moments = moments_of(values)
    assert scale(values, moments, ddof=0, eps=0.0, guard="std").tolist() == given_case.expect["whitened"]
    put_back = whiten(values, moments, ddof=0, eps=0.0, guard="std") + moments.mean
    assert put_back.tolist() == given_case.expect["wrong"]


@given(
    values=st.lists(st.floats(-100, 100), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    offset=st.sampled_from([0.0, 1e6]),
)
def test_any_division_over_ranks_gives_the_same_moments(values, cuts, offset):
    values = [value + offset for value in values]
    ends = [0, *sorted(cut for cut in cuts if cut <= len(values)), len(values)]
    whole = moments_of(exact(values))
    parts = added([values[start:end] for start, end in zip(ends[:-1], ends[1:], strict=True)])
    assert float(parts.count) == float(whole.count)
    assert float(parts.mean) == pytest.approx(float(whole.mean), rel=1e-12, abs=1e-9)
    # Squares about the mean lose nothing to a large mean, as a sum of squares would.
    assert float(parts.variance(0)) == pytest.approx(float(whole.variance(0)), rel=1e-6, abs=1e-6)
    assert bool(parts.is_level) == bool(whole.is_level)


def test_families_have_moments_of_their_own():
    values, family = exact([1.0, 3.0, 10.0, 30.0, 5.0]), torch.tensor([0, 0, 1, 1, 2])
    moments = moments_of(values, family, 4)
    assert moments.mean.tolist() == [2.0, 20.0, 5.0, 0.0]
    assert moments.is_level.tolist() == [False, False, True, True]
    found = whiten(values, moments, family, ddof=0, eps=0.0, guard="std")
    assert found.tolist() == [-1.0, 1.0, -1.0, 1.0, 0.0]


def test_epsilon_stands_beside_the_deviation_or_the_variance():
    values = exact([0.0, 2.0])
    moments = moments_of(values)
    assert whiten(values, moments, ddof=0, eps=1.0, guard="std").tolist() == [-0.5, 0.5]
    assert whiten(values, moments, ddof=0, eps=3.0, guard="variance").tolist() == [-0.5, 0.5]
    assert whiten(values, moments, ddof=1, eps=0.0, guard="std").tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])


@pytest.mark.parametrize("values", [[], [3.0], [0.3, 0.1 + 0.2, 0.3]], ids=["none", "one", "level"])
def test_nothing_to_scale_by_gives_exactly_zero(values):
    moments = moments_of(exact(values))
    for change in (whiten, scale):
        assert change(exact(values), moments, ddof=1, eps=0.0, guard="std").tolist() == [0.0] * len(values)


def test_bad_input_is_refused_by_name():
    values = exact([1.0, 2.0])
    with pytest.raises(ObjectiveError, match="ddof is 2"):
        whiten(values, moments_of(values), ddof=2, eps=0.0, guard="std")
    with pytest.raises(ObjectiveError, match="eps is -1"):
        whiten(values, moments_of(values), ddof=0, eps=-1.0, guard="std")
    with pytest.raises(ObjectiveError, match="give one a value"):
        moments_of(values, torch.tensor([0]))
    with pytest.raises(ObjectiveError, match="say which each value is of"):
        whiten(values, moments_of(values, torch.tensor([0, 1]), 2), ddof=0, eps=0.0, guard="std")
    with pytest.raises(ObjectiveError, match="number the families alike"):
        _ = moments_of(values) + moments_of(values, torch.tensor([0, 1]), 2)


def test_moments_are_plain_numbers_that_a_rank_can_send():
    moments = moments_of(exact([1.0, 5.0]))
    names = ("count", "total", "squares", "low", "high")
    received = Moments(**{name: getattr(moments, name).clone() for name in names})
    assert float(received.variance(1)) == 8.0
