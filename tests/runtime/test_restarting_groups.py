"""Groups that were in flight or ready at a checkpoint: dispatched again, each draw trained once, the account whole."""

import json
from collections import Counter
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.errors import LedgerError
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.parts import CollectorState
from tests.cases import case
from tests.runtime.dispatching import Episodes, Run, sources
from tests.runtime.fakes import noon

ONE = {"made": 1.0}


def run_of(seconds, *, max_lag=2, batch_slots=8, group_size=2, size=400, rules=None):
    return Run(
        episodes=Episodes(seconds),
        order=lambda: sources(ONE, size=size),
        admission=AdmissionRule(batch_slots=batch_slots, group_size=group_size, max_lag=max_lag),
        rules=rules or {},
    )


def uneven(attempt):
    """Some tasks take long, so that groups finish out of order and some wait ready."""
    return 1.0 + (int(attempt.task.task_id[-4:], 16) * 7) % 5


def last_states(run):
    last = {}
    for row in run.rows:
        last[row.group_id, row.slot] = row
    return last


def test_what_was_open_is_dispatched_again_as_a_new_group_that_its_slots_point_to():
    run = run_of(uneven).steps(3)
    left = {g.group_id: g for g in run.state.open_groups}
    assert {state for g in left.values() for state in g.states} == {"in_flight", "ready"}
    run.steps(3)
    requeued = [r for r in run.rows if r.state == "requeued"]
    assert {r.group_id for r in requeued} == set(left)
    assert {r.rule for r in requeued} == {"restart"} and len(requeued) == 2 * len(left)
    successors = {r.group_id: r.successor for r in requeued}
    tasks = {r.group_id: r.task_id for r in run.rows}
    assert all(tasks[old] == tasks[new] and new not in left for old, new in successors.items())
    assert len(set(successors.values())) == len(left)


@pytest.mark.row("S279")
@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 6))
def test_over_any_restarts_no_draw_is_skipped_or_trained_twice_and_the_ledger_balances(stops, max_lag, salt):
    run = run_of(lambda a: 1.0 + (a.group_id * 5 + salt) % 4, max_lag=max_lag)
    for steps in stops:
        run.steps(steps)
        assert sum(run.balance.by_state.values()) == run.balance.dispatched
    states = Counter(row.state for row in last_states(run).values())
    assert states == Counter(run.balance.by_state)
    trained = [g.task.task_id for g in run.groups]
    assert len(trained) == len(set(trained)) == 4 * sum(stops)
    # What was drawn before the newest trained draw and is not trained is still to come, or expired.
    order = [d.task.task_id for d in sources(ONE).peek(len(trained) + 40)]
    to_come = {order[g.draw] for g in run.state.open_groups}
    expired = {r.task_id for r in run.rows if r.state == "expired"}
    newest = max(order.index(t) for t in trained)
    assert set(order[: newest + 1]) <= set(trained) | to_come | expired


@pytest.mark.case("F95")
def test_after_a_resume_each_prompt_is_trained_once():
    worked = case("F95")
    prompts = len(worked.input["prompts"])
    run = run_of(uneven, batch_slots=worked.input["batch"], group_size=1, max_lag=2, size=prompts)
    run.steps(1).steps(prompts // worked.input["batch"] - 1)
    counts = Counter(g.task.task_id for g in run.groups)
    assert sorted(counts.values()) == worked.expect["counts"]


def test_a_stage_ends_with_nothing_in_flight():
    run = run_of(uneven)
    run.admission, run.learn_s = AdmissionRule(batch_slots=8, group_size=2, max_lag=2, max_steps=5), 9.0
    run.steps(5)
    assert run.balance.by_state == {"trained": 40} and run.state.open_groups == ()


def test_a_synchronous_step_leaves_nothing_open_and_its_state_is_that_of_before():
    run = run_of(uneven, max_lag=0).steps(3)
    assert run.state.open_groups == () and run.state.owed is None
    for batch in run.batches:
        # Four groups are asked for, come and are taken; nothing else has happened to any.
        assert {one.name: one.value for one in batch.measures} == {
            "data/token_share": 1.0,
            "data/proposed": 4.0,
            "data/completed": 4.0,
            "data/accepted": 4.0,
            "data/filtered": 0.0,
            "data/expired": 0.0,
            "data/requeued": 0.0,
            "sys/duplicates_refused": 0.0,
        }
    assert run.balance.by_state == {"trained": 24}


def test_the_state_is_read_back_and_an_older_one_too():
    run = run_of(uneven).steps(2)
    assert CollectorState.from_tree(json.loads(json.dumps(asdict(run.state)))) == run.state
    before = {"trained_slots": 8, "steps": 1, "order": None}
    assert CollectorState.from_tree(before) == CollectorState(trained_slots=8, steps=1)


def test_a_slot_that_failed_in_a_settled_group_stays_counted_and_is_forgotten():
    ledger = Ledger(noon)
    run = run_of(uneven)
    run.steps(1)
    with pytest.raises(LedgerError, match="different moments"):
        ledger.reopen(0, ["in_flight"])
    restored = Ledger(noon, run.balance)
    for group in run.state.open_groups:
        restored.reopen(group.group_id, group.states)
    assert restored.balance() == run.balance
    with pytest.raises(LedgerError, match="holds no"):
        restored.reopen(run.state.open_groups[0].group_id, run.state.open_groups[0].states)
