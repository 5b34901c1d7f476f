"""Any schedule of arrivals, failures, swaps and deaths: the account holds, and the run comes to its end.

Some hundred schedules; ten thousand are in the long battery, tests/end_to_end/test_schedules.py.
"""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.runtime.simulation.plans import plans
from tests.runtime.simulation.run import simulate


@pytest.mark.case("F79", "F95")
@given(plan=plans(most_steps=3))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_the_account_holds_whatever_happens_when(plan, tmp_path):
    told = simulate(plan, tmp_path)
    assert told.is_finished or told.endings["no progress"]
