"""The entropy coefficient that follows the entropy."""

import math

import pytest

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.regularizers.magic_entropy import MagicEntropy
from tests.cases import method_fixture


def follow(controller, entropies):
    """c and α of each update, α by the update's own entropy, and c behind the last."""
    states, acting = [], []
    for entropy in entropies:
        states.append(controller.state()["c"])
        acting.append(controller.at(entropy))
        controller.observe({"entropy/full": entropy})
    return states, acting, controller.state()["c"]


@pytest.mark.parametrize("which", ["M86.a", "M86.b"])
def test_it_follows_the_worked_numbers(which):
    fixture = method_fixture(which)
    floor, cap = fixture.input["floor"], fixture.input.get("cap")
    controller = MagicEntropy(
        target=fixture.input["H_star"],
        step=fixture.input["delta"],
        floor=None if floor == "none" else floor,
        cap=cap,
    )
    states, acting, behind = follow(controller, fixture.input["H"])
    assert states == pytest.approx(fixture.expect["c"], abs=fixture.tol)
    assert acting == pytest.approx(fixture.expect["alpha"], abs=fixture.tol)
    assert behind == pytest.approx(fixture.expect["c_next"], abs=fixture.tol)


@pytest.mark.row("S184")
def test_the_survey_s_sequence_by_the_equation_without_a_floor():
    # Fixture F32 of the survey of recipes: c0 = 0, Δ = 0.005, H* = 0.2.
    _, acting, _ = follow(MagicEntropy(floor=None), [0.3, 0.19, 0.19, 0.21])
    assert acting == pytest.approx([0.0, -0.005, 0.0, 0.0])


@pytest.mark.row("S184")
def test_the_script_s_step_and_cap_are_settings_of_their_own():
    states, _, behind = follow(MagicEntropy(step=1e-4, cap=0.005), [0.1] * 60)
    assert states[1] == pytest.approx(1e-4)
    assert max(states) == behind == 0.005


def test_the_next_coefficient_follows_the_newest_entropy():
    controller = MagicEntropy()
    assert controller.value() == 0.0
    seen = []
    for entropy in (0.1, 0.1, 0.3, 0.1):
        controller.observe({"entropy/full": entropy})
        seen.append(controller.value())
    assert seen == pytest.approx([0.005, 0.01, 0.0, 0.01])


@pytest.mark.parametrize(("tie", "c"), [("none", 0.0), ("raise", 0.005)])
def test_at_the_target_the_tie_decides(tie, c):
    controller = MagicEntropy(tie=tie)
    controller.observe({"entropy/full": 0.2})
    assert controller.state() == {"c": c, "is_active": 1.0}


@pytest.mark.parametrize("entropy", [math.nan, math.inf])
def test_an_entropy_that_is_not_finite_changes_nothing(entropy):
    controller = MagicEntropy()
    controller.observe({"entropy/full": 0.1})
    before = controller.state()
    controller.observe({"entropy/full": entropy})
    assert controller.state() == before


def test_the_state_holds_c_and_its_activity():
    first, second = MagicEntropy(), MagicEntropy()
    for entropy in (0.1, 0.1, 0.3):
        first.observe({"entropy/full": entropy})
    second.restore(first.state())
    assert second.value() == first.value() == 0.0
    for controller in (first, second):
        controller.observe({"entropy/full": 0.1})
    assert first.value() == second.value() == pytest.approx(0.01)


@pytest.mark.parametrize("changes", [{"step": 0.0}, {"target": 0.0}, {"floor": 0.1}, {"cap": -0.1}])
def test_bounds_that_do_not_hold_the_start_are_refused(changes):
    with pytest.raises(ObjectiveError, match="c begins at 0"):
        MagicEntropy(**changes)
