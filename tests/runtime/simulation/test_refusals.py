"""An engine that refuses new weights: the run goes on within its largest lag, and stops with a sentence beyond it."""

import pytest

from tests.runtime.simulation.disk import Disk
from tests.runtime.simulation.plans import Ending, Plan
from tests.runtime.simulation.run import Process

LATE = Ending(kind="kill", at=10**9)
"""An ending that never comes; only the last process of a run takes all weights."""


@pytest.mark.parametrize(("max_lag", "ends"), [(0, "refused"), (1, "finished")])
def test_a_refusal_that_is_let_pass_stops_a_run_that_could_train_nothing_more(max_lag, ends, tmp_path):
    plan = Plan(seed=2, steps=3, max_lag=max_lag, decades=0.0, refusals=1.0, tolerated_refusals=1)
    process = Process(plan, Disk(tmp_path), ending=LATE, refused=frozenset({1}))
    assert process.run() == ends
