"""What is trained follows the targets of the sources, not the time that they take."""

from collections import Counter

import pytest

from rollwright.runtime.admission import AdmissionRule
from tests.cases import case
from tests.runtime.dispatching import Episodes, Run, sources

SECONDS = {"fast": 1.0, "middle": 7.0, "slow": 50.0}
TARGETS = {"fast": 0.5, "middle": 0.3, "slow": 0.2}


def trained(mixture, *, steps=150):
    run = Run(
        episodes=Episodes(lambda a: SECONDS[a.task.source]),
        order=lambda: sources(TARGETS),
        admission=AdmissionRule(batch_slots=12, group_size=2, max_lag=2),
        rules={"mixture": mixture},
    )
    return run.steps(steps)


@pytest.mark.row("S257")
def test_with_durations_that_differ_fifty_times_the_trained_shares_are_the_targets_by_deficit():
    run = trained("deficit")
    assert {name: run.share(name) for name in TARGETS} == pytest.approx(TARGETS, abs=0.05)
    run.ledger.balance()


def test_without_the_mixer_fast_tasks_choose_the_curriculum():
    run = trained("dispatch")
    assert run.share("slow") < TARGETS["slow"] - 0.05 and run.share("fast") > TARGETS["fast"] + 0.05
    dispatched = Counter(r.task_source for r in run.rows if r.state == "in_flight")
    assert dispatched["slow"] / dispatched.total() == pytest.approx(TARGETS["slow"], abs=0.02)


def test_every_group_of_a_source_is_reported_by_what_became_of_it():
    run = trained("deficit", steps=40)
    for name in TARGETS:
        counts = {
            what: sum(v or 0 for v in run.measure(f"data/{what}", source=name))
            for what in ("proposed", "completed", "accepted", "expired", "requeued", "filtered")
        }
        assert counts["accepted"] == sum(g.task.source == name for g in run.groups)
        flying = counts["proposed"] - sum(counts[w] for w in ("accepted", "expired", "requeued", "filtered"))
        assert 0 <= flying <= 18 and counts["accepted"] <= counts["completed"] <= counts["proposed"]
    shares = [run.measure("data/token_share", source=name) for name in TARGETS]
    assert all(sum(v or 0 for v in of_batch) == pytest.approx(1) for of_batch in zip(*shares, strict=True))


@pytest.mark.case("F78")
def test_a_slow_world_has_its_ratio_of_fifty_batches():
    worked = case("F78")
    seconds = {name: float(world["seconds"]) for name, world in worked.input["environments"].items()}
    ratios = {name: float(world["ratio"]) for name, world in worked.input["environments"].items()}
    run = Run(
        episodes=Episodes(lambda a: seconds[a.task.source]),
        order=lambda: sources(ratios),
        admission=AdmissionRule(batch_slots=8, group_size=1, max_lag=1),
        rules={"mixture": "deficit"},
        learn_s=0.1,
    ).steps(50)
    assert run.share("slow") == pytest.approx(worked.expect["target_share_slow"], abs=0.05)


def test_what_a_source_is_owed_survives_a_restart():
    straight = trained("deficit", steps=60)
    first = trained("deficit", steps=30)
    owed = first.state.owed
    assert any(owed.values()) and sum(owed.values()) == pytest.approx(0, abs=1e-9)
    first.steps(30)
    assert {n: first.share(n) for n in TARGETS} == pytest.approx({n: straight.share(n) for n in TARGETS}, abs=0.1)
