"""The dispatcher: whole groups, retries in their slot, the incomplete-group rule, order whatever finishes first."""

import asyncio
from dataclasses import replace
from typing import Literal

import pytest

from rollwright.record import TerminalReason
from rollwright.rollout import Limits, Parked
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.dispatcher import Dispatcher, DispatchRules
from rollwright.runtime.errors import NoProgressError
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.parts import CollectorState, GroupCounter
from tests.cases import case
from tests.runtime.fakes import ended, episodes, noon, numbered_tasks, score


def fresh(attempt):
    """Two groups a step: the version that serves then."""
    return ended(attempt, version=attempt.group_id // 2)


def make(
    run_episode,
    *,
    incomplete: Literal["train", "filter"] = "train",
    group_size=4,
    batch_slots=8,
    score_with=score,
    max_resumptions=0,
):
    ledger = Ledger(noon)
    rules = DispatchRules(
        stage="rl",
        admission=AdmissionRule(batch_slots=batch_slots, group_size=group_size, max_lag=0),
        max_attempts=3,
        concurrency=3,
        incomplete=incomplete,
        first_version=0,
        max_resumptions=max_resumptions,
    )
    dispatcher = Dispatcher(
        rules, order=numbered_tasks(), counter=GroupCounter(), ledger=ledger, run_episode=run_episode, score=score_with
    )
    return dispatcher, ledger


async def steps(dispatcher, count):
    collected = []
    async with asyncio.TaskGroup() as background:
        working = background.create_task(dispatcher.run())
        for step in range(1, count + 1):
            batch = await asyncio.wait_for(dispatcher.collect(step), 10)
            dispatcher.settle(step, batch.groups)
            collected.append(batch)
            dispatcher.advance()
        working.cancel()
    return collected


@pytest.mark.parametrize("shuffle", range(5))
def test_batches_hold_the_same_groups_in_order_whatever_finishes_first(shuffle):
    dispatcher, ledger = make(episodes(fresh, shuffle=shuffle))
    batches = asyncio.run(steps(dispatcher, 3))
    ids = [[m.trajectory_id for g in b.groups for m in g.members] for b in batches]
    assert ids[0] == [f"t00000{g}-0{s}-0" for g in (0, 1) for s in range(4)]
    assert [[g.group_id for g in b.groups] for b in batches] == [[0, 1], [2, 3], [4, 5]]
    # A cancelled run may have dispatched the next batch; every slot is still in exactly one state.
    assert ledger.balance().by_state["trained"] == 24


def test_a_failed_attempt_is_tried_again_in_its_slot_with_its_lineage():
    def end(attempt):
        if attempt.slot == 1 and attempt.attempt == 0 and attempt.group_id == 0:
            return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="the tool server died")
        return ended(attempt)

    dispatcher, ledger = make(episodes(end))
    (batch,) = asyncio.run(steps(dispatcher, 1))
    retried = batch.groups[0].members[1].trajectory
    assert (retried.trajectory_id, retried.lineage, retried.parent_trajectory_id) == (
        "t000000-01-1",
        "retry_of",
        "t000000-01-0",
    )
    (failed,) = batch.others
    assert failed.trajectory_id == "t000000-01-0" and failed.outcome == "infrastructure_failure"
    rows = [(r.attempt, r.state) for r in ledger.take_rows() if (r.group_id, r.slot) == (0, 1)]
    assert rows == [(0, "in_flight"), (1, "in_flight"), (1, "ready"), (1, "trained")]


def always_fails_in_slot_2(attempt):
    if attempt.slot == 2 and attempt.group_id == 0:
        return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="no disk")
    return ended(attempt)


def test_an_incomplete_group_trains_what_came():
    dispatcher, ledger = make(episodes(always_fails_in_slot_2), incomplete="train")
    (batch,) = asyncio.run(steps(dispatcher, 1))
    assert [m.trajectory.slot for m in batch.groups[0].members] == [0, 1, 3] and batch.groups[0].size == 4
    assert ledger.balance().by_state["trained"] == 7 and ledger.balance().by_state["failed"] == 1


def test_an_incomplete_group_is_filtered_and_replaced():
    dispatcher, ledger = make(episodes(always_fails_in_slot_2), incomplete="filter")
    (batch,) = asyncio.run(steps(dispatcher, 1))
    assert [g.group_id for g in batch.groups] == [1, 2]
    rows = ledger.take_rows()
    assert {(r.slot, r.state, r.rule) for r in rows if r.group_id == 0 and r.state in ("filtered", "failed")} == {
        (0, "filtered", "incomplete_group"),
        (1, "filtered", "incomplete_group"),
        (3, "filtered", "incomplete_group"),
        (2, "failed", "no disk"),
    }
    assert {t.trajectory_id for t in batch.others} == {
        "t000000-00-0",
        "t000000-01-0",
        "t000000-03-0",
        "t000000-02-0",
        "t000000-02-1",
        "t000000-02-2",
    }


def test_a_run_that_can_make_no_progress_stops_with_the_cause():
    dispatcher, _ = make(
        episodes(lambda a: ended(a, TerminalReason.INFRASTRUCTURE_FAILURE, cause="the engine is gone"))
    )
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(steps(dispatcher, 1))
    error = caught.value
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, NoProgressError) and "the engine is gone" in str(error)


def test_a_restored_cursor_goes_on_with_the_next_tasks():
    through, _ = make(episodes(fresh))
    straight = asyncio.run(steps(through, 2))[1]
    first, _ = make(episodes(fresh))
    asyncio.run(steps(first, 1))
    # A step ends with nothing in flight: what a cancelled run had started is drawn again, under its own number.
    again, _ = make(episodes(fresh))
    again.restore(first.state())
    (batch,) = asyncio.run(steps(again, 1))
    assert [g.task.task_id for g in batch.groups] == [g.task.task_id for g in straight.groups]


@pytest.mark.case("F79")
def test_admission_after_a_resume_counts_what_the_restored_version_has_consumed():
    worked = case("F79")
    batch, version, lag = (worked.input[k] for k in ("batch", "restored_version", "max_staleness"))
    trained = worked.expect["accepted_after_restore"]
    started = []

    async def never_ends(attempt):
        started.append((attempt.group_id, attempt.slot))
        await asyncio.sleep(60)
        return ended(attempt)

    def restored(state):
        dispatcher = Dispatcher(
            DispatchRules(
                stage="rl",
                admission=AdmissionRule(batch_slots=batch, group_size=4, max_lag=lag),
                max_attempts=1,
                concurrency=10_000,
                incomplete="train",
                first_version=0,
            ),
            order=numbered_tasks(),
            counter=GroupCounter(),
            ledger=Ledger(noon),
            run_episode=never_ends,
            score=score,
        )
        dispatcher.restore(state)
        return dispatcher

    async def burst(dispatcher):
        started.clear()
        working = asyncio.create_task(dispatcher.run())
        for _ in range(20):
            await asyncio.sleep(0)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        return len(set(started))

    order = numbered_tasks().state()
    state = CollectorState(trained_slots=trained, steps=version, order=order)
    assert asyncio.run(burst(restored(state))) == worked.expect["capacity"]
    forgotten = CollectorState(trained_slots=0, steps=version, order=order)
    assert asyncio.run(burst(restored(forgotten))) == worked.expect["wrong_if_accepted_restarts_at_0"]


def test_the_state_that_is_saved_counts_the_slots_that_were_trained():
    dispatcher, _ = make(episodes(fresh))
    asyncio.run(steps(dispatcher, 3))
    assert (dispatcher.state().trained_slots, dispatcher.state().steps) == (24, 3)


# ---------------------------------------------------------------------------------------------------------- parking


def parked(attempt):
    """An attempt that a limit cut, as the driver leaves it."""
    cut = replace(ended(attempt, TerminalReason.SUPERSEDED, cause="parked at token_limit"), failure_class="abandoned")
    return Parked(
        trajectory=cut,
        limits=Limits(),
        tools={},
        turns={},
        cut=frozenset(),
        results={},
        steps=(),
        open_turns=(),
        snapshot=None,
    )


def attempts_of_slot_1(end, *, max_resumptions):
    """What slot 1 of group 0 was asked, the batch, and the states that the slot went through."""
    asked = []

    def run(attempt):
        if (attempt.group_id, attempt.slot) != (0, 1):
            return ended(attempt)
        asked.append(attempt)
        return end(attempt)

    dispatcher, ledger = make(episodes(run), max_resumptions=max_resumptions)
    (batch,) = asyncio.run(steps(dispatcher, 1))
    ledger.balance()
    states = [(r.attempt, r.state) for r in ledger.take_rows() if (r.group_id, r.slot) == (0, 1)]
    return asked, batch, states


def test_a_parked_attempt_is_gone_on_with_as_often_as_allowed_and_trained_once():
    def end(attempt):
        return parked(attempt) if attempt.at_limit == "park" else ended(attempt, TerminalReason.TOKEN_LIMIT)

    asked, batch, states = attempts_of_slot_1(end, max_resumptions=2)
    assert [(a.attempt, a.at_limit, a.lineage, a.parent_trajectory_id) for a in asked] == [
        (0, "park", None, None),
        (1, "park", "resumed_from", "t000000-01-0"),
        (2, "end", "resumed_from", "t000000-01-1"),
    ]
    assert [a.past and a.past.trajectory.trajectory_id for a in asked] == [None, "t000000-01-0", "t000000-01-1"]
    assert batch.groups[0].members[1].trajectory_id == "t000000-01-2"
    assert [(m.trajectory_id, m.outcome) for m in batch.others] == [
        ("t000000-01-0", "superseded"),
        ("t000000-01-1", "superseded"),
    ]
    assert states == [(0, "in_flight"), (1, "in_flight"), (2, "in_flight"), (2, "ready"), (2, "trained")]


def test_a_failure_behind_a_parked_episode_is_retried_from_there_and_a_resumption_is_no_try():
    def end(attempt):
        if attempt.attempt == 1:
            return parked(attempt)
        if attempt.attempt in (0, 2, 3):
            return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="the engine is gone")
        return ended(attempt)

    asked, batch, states = attempts_of_slot_1(end, max_resumptions=1)
    found = [(a.lineage, a.parent_trajectory_id, a.past and a.past.trajectory.attempt, a.at_limit) for a in asked]
    assert found == [
        (None, None, None, "park"),
        ("retry_of", "t000000-01-0", None, "park"),
        ("resumed_from", "t000000-01-1", 1, "end"),
        ("retry_of", "t000000-01-2", 1, "end"),
    ]
    assert len(batch.groups[0].members) == 3 and len(batch.others) == 4 and states[-1] == (3, "failed")


def test_nothing_is_parked_where_no_resumption_is_allowed():
    asked, _, _ = attempts_of_slot_1(ended, max_resumptions=0)
    assert [a.at_limit for a in asked] == ["end"]
