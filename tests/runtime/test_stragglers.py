"""Oversampling: a full batch does not wait for the slowest; what it leaves is parked and goes on, or starts again."""

from collections import Counter
from typing import Any

import pytest

from rollwright.record import TerminalReason
from rollwright.runtime.admission import AdmissionRule
from tests.runtime.dispatching import Episodes, Run, sources

SLOW = 20.0


def run_of(stragglers, *, extra: Any = 2, max_lag: Any = 1, over_lag: Any = "expire", seconds=None):
    return Run(
        episodes=Episodes(seconds or (lambda a: SLOW if a.group_id in (1, 4) and a.slot == 1 else 1.0)),
        order=lambda: sources({"made": 1.0}),
        admission=AdmissionRule(batch_slots=4, group_size=2, max_lag=max_lag, extra_slots=2 * extra),
        rules={"stragglers": stragglers, "over_lag": over_lag},
    )


def balanced(run):
    assert sum(run.balance.by_state.values()) == run.balance.dispatched
    trained = Counter((r.group_id, r.slot) for r in run.rows if r.state == "trained")
    assert set(trained.values()) == {1}
    return run


@pytest.mark.row("S227")
def test_a_straggler_is_parked_and_goes_on_in_its_slot_until_it_is_trained_once():
    seconds = {(1, 1): 6.0}
    run = balanced(run_of("park", max_lag=8, seconds=lambda a: seconds.get((a.group_id, a.slot), 1.0)).steps(9))
    asked = [a for a in run.episodes.asked if (a.group_id, a.slot) == (1, 1)]
    assert len(asked) > 1 and [a.attempt for a in asked] == list(range(len(asked)))
    assert all(a.past is not None and a.lineage == "resumed_from" for a in asked[1:])
    assert [a.parent_trajectory_id for a in asked[1:]] == [f"t000001-01-{n}" for n in range(len(asked) - 1)]
    others = [m for b in run.batches for m in b.others if m.trajectory.group_id == 1]
    assert {m.outcome for m in others} == {"superseded"} and len(others) == len(asked) - 1
    assert [r.state for r in run.rows if (r.group_id, r.slot) == (1, 1)][-2:] == ["ready", "trained"]
    assert "requeued" not in run.balance.by_state


def test_no_batch_waits_for_a_straggler():
    seconds = {
        what: run_of(what, **more).steps(8).seconds
        for what, more in (
            ("park", {"over_lag": "mask"}),
            ("requeue", {"max_lag": 0}),
            ("wait", {"extra": 0, "max_lag": 0}),
        )
    }
    assert seconds["park"] < seconds["wait"] / 2 and seconds["requeue"] < seconds["wait"] / 2


def test_a_parked_episode_that_would_come_too_late_is_dispatched_again():
    run = balanced(run_of("park").steps(12))
    requeued = [r for r in run.rows if r.state == "requeued"]
    assert requeued and {r.rule for r in requeued} == {"lag"}
    assert all(r.successor is not None and r.successor > r.group_id for r in requeued)
    tasks = {r.group_id: r.task_id for r in run.rows}
    assert all(tasks[r.group_id] == tasks[r.successor] for r in requeued)


def test_in_synchronous_training_stragglers_are_aborted_and_their_tasks_started_again():
    run = balanced(run_of("requeue", max_lag=0).steps(8))
    aborted = [m for b in run.batches for m in b.others if m.trajectory.terminal_reason is TerminalReason.ABORTED]
    assert {m.outcome for m in aborted} == {"aborted"} and aborted
    requeued = [r for r in run.rows if r.state == "requeued"]
    assert requeued and {r.rule for r in requeued} == {"straggler"}
    assert len(run.groups) == 16


def test_nothing_is_started_under_weights_that_no_batch_can_hold_any_more():
    run = balanced(run_of("requeue", max_lag=0).steps(8))
    started = Counter(r.policy_version for r in run.rows if r.state == "in_flight" and r.attempt == 0)
    assert all(count <= 4 + 4 for count in started.values())
    assert run.balance.dispatched <= 8 * (4 + 4)


def test_what_a_restart_finds_parked_is_dispatched_again():
    run = run_of("park", over_lag="mask").steps(2)
    assert 1 in {g.group_id for g in run.state.open_groups}
    balanced(run.steps(6))
    assert {r.rule for r in run.rows if r.state == "requeued" and r.group_id == 1} == {"restart"}


def test_what_was_parked_begins_again_at_its_task_after_a_restart_and_its_slot_points_to_where():
    run = run_of("park", over_lag="mask").steps(2)
    left = [m for b in run.batches for m in b.others if m.trajectory.group_id == 1]
    assert {m.outcome for m in left} == {"superseded"}, "it was parked, and what it drew is in the record"
    asked = len(run.episodes.asked)
    run.steps(6)
    requeued = {(r.group_id, r.slot): r for r in run.rows if r.state == "requeued" and r.rule == "restart"}
    parked = requeued[1, 1]
    assert parked.attempt == left[-1].trajectory.attempt + 1, "the attempt that was to go on with it"
    again = [a for a in run.episodes.asked[asked:] if a.group_id == parked.successor]
    assert {a.task.task_id for a in again} == {parked.task_id}
    begun = next(a for a in again if a.slot == 1)
    assert (begun.attempt, begun.past, begun.parent_trajectory_id) == (0, None, None)
    balanced(run)


def test_two_restarts_from_one_checkpoint_dispatch_what_was_parked_alike():
    def resumed():
        run = run_of("park", over_lag="mask").steps(2).steps(6)
        return [(a.group_id, a.slot, a.attempt, a.task.task_id) for a in run.episodes.asked], run.rows

    assert resumed() == resumed()


def test_a_finished_sibling_of_a_requeued_group_is_recorded():
    run = run_of("requeue", max_lag=0).steps(4)
    requeued = {r.group_id for r in run.rows if r.state == "requeued"}
    siblings = [
        m for b in run.batches for m in b.others if m.trajectory.group_id in requeued and m.trajectory.slot == 0
    ]
    assert siblings and {m.outcome for m in siblings} == {"requeued"}
