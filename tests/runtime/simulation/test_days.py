"""A long run holds no more at its end than at its beginning; the whole day is in the long battery."""

import pytest

from tests.runtime.simulation.days import live
from tests.runtime.simulation.plans import Plan


@pytest.mark.parametrize("stragglers", ["wait", "park"])
def test_a_run_of_many_steps_does_not_grow(stragglers, tmp_path):
    plan = Plan(seed=3, steps=120, max_lag=2, extra_groups=1, stragglers=stragglers, failures=0.1, evaluate_every=50)
    day = live(plan, tmp_path, counted_at=frozenset({40, 120}))
    assert day.slots["trained"] > 0.8 * 120 * plan.batch_slots
    assert day.blocks[120] < 1.03 * day.blocks[40]
