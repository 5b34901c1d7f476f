"""Ten thousand schedules of the runtime on a simulated clock, and a simulated day of ten thousand updates.

Each schedule is a run of its own: arrivals, durations, failures, refused weights, kills and restarts are drawn, and
after each of its processes the account is made up from the committed rows alone (tests/runtime/simulation).
"""

import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.end_to_end.proofs import Figures, Proofs
from tests.runtime.simulation.days import Day, live
from tests.runtime.simulation.plans import Plan, plans
from tests.runtime.simulation.run import simulate

SEEDS = range(20)
SCHEDULES = 500
"""A seed."""
DAY = Plan(
    seed=8,
    steps=10_000,
    max_lag=2,
    extra_groups=1,
    stragglers="park",
    decades=1.5,
    learner_s=8.0,
    failures=0.05,
    grader_errors=0.02,
    swap="continue",
    evaluate_every=500,
    checkpoint_every=10,
)
GROWTH = 1.02
"""Of the interpreter's blocks between steps 2,000 and 10,000."""


@pytest.mark.slow
@pytest.mark.case("F79", "F95")
@pytest.mark.parametrize("number", SEEDS)
def test_the_account_holds_in_every_schedule(number: int, proofs: Proofs, tmp_path: Path) -> None:
    command = f"make prove-schedules: {SCHEDULES} schedules"
    figures = proofs.recorded(command, [number])
    if figures is None:
        figures = _explored(number, tmp_path)
        proofs.record(command, [number], figures)
    assert figures["schedules"] >= SCHEDULES
    assert figures["processes"]["killed"] and figures["slots"]["requeued"]


@pytest.mark.slow
def test_a_day_of_ten_thousand_updates_is_flat_in_memory_and_balances(proofs: Proofs, tmp_path: Path) -> None:
    command = "make prove-schedules: a day"
    figures = proofs.recorded(command, [DAY.seed])
    if figures is None:
        day = live(DAY, tmp_path, counted_at=frozenset(range(2_000, 10_001, 2_000)))
        figures = _figures_of(day)
        proofs.record(command, [DAY.seed], figures)
    assert figures["simulated_hours"] > 24
    assert figures["slots"]["trained"] <= 10_000 * DAY.batch_slots
    blocks = {int(step): count for step, count in figures["blocks"].items()}
    assert blocks[10_000] < GROWTH * blocks[2_000]


def _figures_of(day: Day) -> Figures:
    return {
        "simulated_hours": day.seconds / 3600,
        "slots": dict(day.slots),
        "blocks": {str(step): count for step, count in day.blocks.items()},
    }


def _explored(number: int, folder: Path) -> Figures:
    """The sums over the schedules of one seed; what breaks an invariant is raised with the smallest plan that does."""
    slots, processes, sums = Counter[str](), Counter[str](), Counter[str]()
    began = time.process_time()

    @seed(number)
    @settings(max_examples=SCHEDULES, derandomize=False, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(plan=plans())
    def explore(plan: Plan) -> None:
        told = simulate(plan, folder)
        assert told.is_finished or told.endings["no progress"]
        slots.update(told.slots)
        processes.update(told.endings)
        sums.update(schedules=1, steps=told.steps, calls=told.calls, simulated_s=round(told.seconds))

    explore()
    cpu_s = round(time.process_time() - began, 1)
    return {**sums, "processes": dict(processes), "slots": dict(slots), "cpu_s": cpu_s}
