"""The collectors that sample nothing: demonstrations by the order of tasks, a stored run's batches by their ids."""

import asyncio
from collections import Counter

import pytest

from rollwright.record import Group, TerminalReason
from rollwright.runtime.demonstrations import DemonstrationCollector, StoredCollector
from rollwright.runtime.errors import LedgerError, RuntimeRunError
from rollwright.runtime.ledger import Ledger, LedgerBalance
from rollwright.runtime.parts import Attempt, Collector, GroupCounter
from tests.runtime.fakes import demonstrated, ended, episodes, noon, numbered_tasks, score, task


def demonstrations(run_episode=None, *, counter=None, batch_size=3):
    return DemonstrationCollector(
        stage="warm_start",
        batch_size=batch_size,
        order=numbered_tasks(),
        counter=counter or GroupCounter(),
        run_episode=run_episode or episodes(demonstrated, shuffle=0),
    )


async def collected(collector: Collector, steps, *, first=1):
    batches = []
    for step in range(first, first + steps):
        batch = await collector.collect(step)
        collector.settle(step, batch.groups)
        collector.advance()
        batches.append(batch.groups)
    return batches


def test_each_demonstration_is_a_group_of_one_that_nothing_judges():
    (batch,) = asyncio.run(collected(demonstrations(), 1))
    assert [g.group_id for g in batch] == [0, 1, 2] and {g.size for g in batch} == {1}
    assert {m.outcome for g in batch for m in g.members} == {"demonstration"}
    assert [m.trajectory.purpose for g in batch for m in g.members] == ["demonstration"] * 3


def test_a_failed_demonstration_stops_with_its_task_and_cause():
    def end(attempt):
        if attempt.group_id == 1:
            return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="the tool server died")
        return demonstrated(attempt)

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(collected(demonstrations(episodes(end)), 1))
    (error,) = caught.value.exceptions
    assert isinstance(error, RuntimeRunError)
    assert "ended with infrastructure_failure: the tool server died" in str(error) and "made/" in str(error)


def test_a_restored_collector_goes_on_with_the_next_demonstrations():
    through = asyncio.run(collected(demonstrations(), 2))
    first = demonstrations()
    asyncio.run(collected(first, 1))
    again = demonstrations(counter=GroupCounter(3))
    again.restore(first.state())
    (batch,) = asyncio.run(collected(again, 1, first=2))
    assert [(g.group_id, g.task.task_id) for g in batch] == [(g.group_id, g.task.task_id) for g in through[1]]
    assert again.state().steps == 2


def stored_group(group_id, *, size=2):
    attempts = [
        Attempt(purpose="train", stage="rl", group_id=group_id, slot=s, attempt=0, task=task(group_id))
        for s in range(size)
    ]
    members = asyncio.run(_scored([ended(a) for a in attempts]))
    return Group(group_id=group_id, task=task(group_id), size=size, members=tuple(members))


async def _scored(trajectories):
    return await score(trajectories)


def stored(batches, *, counter=None, ledger=None):
    return StoredCollector(
        read=lambda step: batches.get(step, ()),
        counter=counter or GroupCounter(),
        ledger=ledger or Ledger(noon),
    )


def test_a_stored_batch_keeps_its_ids_and_order_and_its_ids_are_never_given_again():
    counter = GroupCounter()
    batches = {1: (stored_group(9), stored_group(4)), 2: (stored_group(12),)}
    found = asyncio.run(collected(stored(batches, counter=counter), 2))
    assert [[g.group_id for g in batch] for batch in found] == [[9, 4], [12]]
    assert [m.trajectory_id for m in found[0][0].members] == ["t000009-00-0", "t000009-01-0"]
    assert counter.take() == 13


def test_a_counter_that_is_further_stays_where_it_is():
    counter = GroupCounter(100)
    asyncio.run(collected(stored({1: (stored_group(9),)}, counter=counter), 1))
    assert counter.next_id == 100


def test_a_stored_slot_goes_through_the_ledger_as_a_sampled_one_does():
    ledger = Ledger(noon)
    asyncio.run(collected(stored({1: (stored_group(0),), 2: (stored_group(1),)}, ledger=ledger), 2))
    assert ledger.balance() == LedgerBalance(dispatched=4, by_state={"trained": 4})
    rows = ledger.take_rows()
    assert Counter(r.state for r in rows) == {"in_flight": 4, "ready": 4, "trained": 4}
    assert [(r.step, r.policy_version) for r in rows if r.state == "trained"] == [(1, 0), (1, 0), (2, 1), (2, 1)]


def test_a_stored_group_that_is_given_twice_is_refused_while_it_stands():
    with pytest.raises(LedgerError, match="slot 0 of group 3 is ready"):
        asyncio.run(stored({1: (stored_group(3), stored_group(3))}).collect(1))


def test_stored_demonstrations_have_no_ledger_rows():
    ledger = Ledger(noon)
    (batch,) = asyncio.run(collected(demonstrations(), 1))
    asyncio.run(collected(stored({1: batch}, ledger=ledger), 1))
    assert ledger.take_rows() == ()


def test_a_step_that_the_stored_run_does_not_hold_is_named():
    with pytest.raises(RuntimeRunError, match=r"no batch for step 3; it ends earlier. Set run.steps"):
        asyncio.run(stored({1: (stored_group(0),)}).collect(3))
