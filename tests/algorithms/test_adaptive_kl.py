"""The KL coefficient that follows the KL."""

import math
from dataclasses import replace

import pytest

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.regularizers.adaptive_kl import AdaptiveKl
from tests.cases import method_fixture


def adaptive(**changes):
    return replace(AdaptiveKl(initial=0.2, target=6.0, num_rows=256), **changes)


def follow(controller, *seen):
    values = []
    for kl in seen:
        controller.observe({controller.metric: kl})
        values.append(controller.value())
    return values


def test_it_moves_by_the_clipped_relative_error():
    fixture = method_fixture("M84.a")
    controller = AdaptiveKl(
        initial=fixture.input["init"],
        target=fixture.input["target"],
        num_rows=fixture.input["n"],
        horizon=fixture.input["horizon"],
    )
    assert follow(controller, *fixture.input["kl"]) == pytest.approx(fixture.expect["coef"], rel=fixture.tol)


@pytest.mark.parametrize("kl", [0.0, -1.0, math.nan, math.inf])
def test_a_kl_that_says_nothing_moves_nothing(kl):
    assert follow(adaptive(), kl) == [0.2]


def test_a_small_error_is_not_clipped():
    assert follow(adaptive(), 6.6) == pytest.approx([0.2 * (1 + 0.1 * 0.0256)])


def test_the_state_is_the_coefficient():
    first, second = adaptive(), adaptive()
    follow(first, 12.0, 9.0)
    second.restore(first.state())
    assert follow(first, 5.0) == follow(second, 5.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"initial": -0.1}, "initial=-0.1"),
        ({"target": 0.0}, "target=0.0"),
        ({"bound": 0.0}, "bound=0.0"),
        ({"num_rows": 0}, "num_rows=0"),
        ({"horizon": 100}, "horizon=100"),
    ],
)
def test_numbers_that_control_nothing_are_refused(changes, said):
    with pytest.raises(ObjectiveError, match=said):
        adaptive(**changes)
