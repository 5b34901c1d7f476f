"""Posterior-tempered group sampling and the ramps (M100, M101)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.sampling.pivot_temperature import (
    PivotSettings,
    PivotTemperatures,
    TaskCounts,
    discount_counts,
    temperature_of_rate,
)
from rollwright.algorithms.sampling.ramps import geometric_ramp, linear_ramp


@given(st.floats(0.01, 0.99), st.floats(1.01, 4), st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_harder_tasks_are_hotter_within_tau_of_the_reference(pivot, tau, rates):
    temperatures = temperature_of_rate(sorted(rates), pivot=pivot, tau=tau, reference=0.8)
    assert (np.diff(temperatures) <= 1e-12).all()
    assert (temperatures <= 0.8 * tau * (1 + 1e-12)).all()
    assert (temperatures >= 0.8 / tau * (1 - 1e-12)).all()
    assert float(temperature_of_rate(pivot, pivot=pivot, tau=tau, reference=0.8)) == pytest.approx(0.8)


def test_a_task_that_is_never_solved_heats_up_and_one_that_always_is_cools_down():
    drawn = PivotTemperatures(PivotSettings(total_steps=200), seed=7)
    for step in range(200):
        for task, successes in (("hard", 0), ("easy", 16)):
            drawn.draw(task, step=step)
            drawn.observe(task, successes=successes, attempts=16)
    hard = [drawn.draw("hard", step=200) for _ in range(20)]
    easy = [drawn.draw("easy", step=200) for _ in range(20)]
    assert min(hard) > 1.45
    assert max(easy) < 0.7


def test_a_draw_depends_on_its_own_task_alone_and_goes_on_from_a_saved_state():
    settings = PivotSettings(total_steps=10)
    alone, among = PivotTemperatures(settings, seed=1), PivotTemperatures(settings, seed=1)
    among.draw("other", step=0)
    assert alone.draw("task", step=0) == among.draw("task", step=0)
    alone.observe("task", successes=3, attempts=8)
    among.observe("other", successes=1, attempts=8)
    among.observe("task", successes=3, attempts=8)
    resumed = PivotTemperatures(settings, seed=1)
    resumed.restore(alone.state())
    assert resumed.draw("task", step=5) == among.draw("task", step=5)
    assert resumed.draw("task", step=5) != among.draw("task", step=4)
    assert PivotTemperatures(settings, seed=2).draw("task", step=0) != PivotTemperatures(settings, seed=1).draw(
        "task", step=0
    )


def test_a_group_without_a_scored_attempt_changes_no_count():
    counts = TaskCounts(successes=2.0, failures=1.0, draws=3)
    assert discount_counts(counts, successes=0, attempts=0) == counts


def test_what_is_asked_out_of_order_or_out_of_range_is_refused():
    drawn = PivotTemperatures(PivotSettings(total_steps=10), seed=0)
    with pytest.raises(ObjectiveError, match="no temperature was drawn"):
        drawn.observe("task", successes=1, attempts=2)
    with pytest.raises(ObjectiveError, match="3 successes in 2 attempts"):
        discount_counts(TaskCounts(), successes=3, attempts=2)
    with pytest.raises(ObjectiveError, match="both lie between 0 and 1"):
        PivotSettings(total_steps=10, start=0.0)
    with pytest.raises(ObjectiveError, match="tau is 0"):
        PivotSettings(total_steps=10, tau=0)
    with pytest.raises(ObjectiveError, match="at pivot 1"):
        temperature_of_rate([0.5], pivot=1)
    with pytest.raises(ObjectiveError, match=r"rates \[1\.5\]"):
        temperature_of_rate([1.5], pivot=0.5)


def test_ramps_stay_at_their_end():
    assert [linear_ramp(step, start=1, end=3, steps=2) for step in (0, 1, 2, 9)] == [1, 2, 3, 3]
    assert [geometric_ramp(step, start=1, end=4, steps=2) for step in (0, 1, 2, 9)] == [1, 2, 4, 4]
    assert linear_ramp(0, start=1, end=3, steps=0) == 3
    with pytest.raises(ObjectiveError, match="both above 0"):
        geometric_ramp(0, start=0, end=1, steps=2)
    with pytest.raises(ObjectiveError, match="step -1 of 2"):
        linear_ramp(-1, start=0, end=1, steps=2)
