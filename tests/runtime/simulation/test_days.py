"""A long run holds no more at its end than at its beginning; the whole day is in the long battery."""

import pytest

from tests.runtime.simulation.days import live
from tests.runtime.simulation.plans import Plan


@pytest.mark.parametrize("stragglers", ["wait", "park"])
def test_a_run_of_many_steps_does_not_grow(stragglers, tmp_path):
    plan = Plan(seed=3, steps=60, max_lag=2, extra_groups=1, stragglers=stragglers, failures=0.1, evaluate_every=20)
    day = live(plan, tmp_path, counted_at=frozenset({20, 60}))
    assert day.slots["trained"] > 0.8 * 60 * plan.batch_slots
    assert day.blocks[60] < 1.03 * day.blocks[20]


def test_what_fails_expires_and_is_filtered_is_held_no_longer_than_a_batch(tmp_path):
    plan = Plan(
        seed=5,
        steps=60,
        max_lag=1,
        refill=2,
        incomplete="filter",
        failures=0.1,
        duplicates=0.1,
        grader_errors=0.05,
        evaluate_every=20,
    )
    day = live(plan, tmp_path, counted_at=frozenset({20, 60}))
    assert day.slots["filtered"] and day.slots["expired"] and day.slots["trained"], day.slots
    assert day.blocks[60] < 1.03 * day.blocks[20]
