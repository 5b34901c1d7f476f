"""Each attempt and each group is taken once, whatever is delivered twice (M114)."""

import asyncio
from typing import Any

import pytest

from rollwright.record import Group, TerminalReason
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.deliveries import Deliveries
from rollwright.runtime.dispatcher import Dispatcher, DispatchRules
from rollwright.runtime.errors import NoProgressError
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.parts import GroupCounter
from tests.cases import method_fixture
from tests.runtime.dispatching import Episodes, Run, sources
from tests.runtime.fakes import ended, noon, numbered_tasks, score


def make(run_episode, **rules):
    ledger = Ledger(noon)
    given: dict[str, Any] = {"max_attempts": 3, "incomplete": "train", **rules}
    dispatcher = Dispatcher(
        DispatchRules(
            stage="rl",
            admission=AdmissionRule(batch_slots=4, group_size=2, max_lag=0),
            concurrency=100,
            first_version=0,
            **given,
        ),
        order=numbered_tasks(),
        counter=GroupCounter(),
        ledger=ledger,
        run_episode=run_episode,
        score=score,
    )
    return dispatcher, ledger


async def one_step(dispatcher, behind=None):
    async with asyncio.TaskGroup() as background:
        working = background.create_task(dispatcher.run())
        batch = await asyncio.wait_for(dispatcher.collect(1), 10)
        answers = [await dispatcher.deliver(g) for g in batch.groups] if behind else []
        dispatcher.settle(1, batch.groups)
        answers += [await dispatcher.deliver(g) for g in batch.groups] if behind else []
        working.cancel()
    return batch, answers


def test_the_worked_numbers_of_deliveries():
    worked = method_fixture("M114.a")
    deliveries = Deliveries()
    for name in set(worked.input["accepted_ids"]):
        deliveries.expect(name)
    accepted = [deliveries.accept(name) for name in worked.input["accepted_ids"]]
    assert sum(accepted) == worked.expect["unique_accepted"]
    assert deliveries.take_refused() == worked.expect["duplicates_refused"]
    assert deliveries.take_refused() == 0


def test_a_group_delivered_again_is_refused_and_counted_before_and_after_it_is_trained():
    async def run(attempt):
        return ended(attempt)

    dispatcher, ledger = make(run)
    _, answers = asyncio.run(one_step(dispatcher, behind="deliver again"))
    assert answers == ["refused"] * 4 and ledger.balance().by_state["trained"] == 4
    unknown = Group(group_id=999, task=numbered_tasks().draw().task, size=2, members=())
    assert asyncio.run(dispatcher.deliver(unknown)) == "refused"


def test_an_answer_that_belongs_to_another_attempt_is_refused_counted_and_asked_for_again():
    told = []

    async def run(attempt):
        made = ended(attempt)
        told.append(made)
        if len(told) == 2:
            return told[0]
        return made

    dispatcher, ledger = make(run)
    batch, _ = asyncio.run(one_step(dispatcher))
    assert ledger.balance().by_state["trained"] == 4
    assert len({m.trajectory_id for g in batch.groups for m in g.members}) == 4
    (refused,) = [one for one in batch.measures if one.name == "sys/duplicates_refused"]
    assert (refused.name, refused.value) == ("sys/duplicates_refused", 1.0)


def test_a_slot_that_only_gets_foreign_answers_ends_the_run_with_the_reason():
    first = []

    async def run(attempt):
        first.append(ended(attempt))
        return first[0]

    dispatcher, _ = make(run)
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(one_step(dispatcher))
    error = caught.value
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, NoProgressError) and "something else came each time" in str(error)


def test_deliveries_hold_no_more_than_what_is_in_flight():
    run = Run(
        episodes=Episodes(lambda a: 1.0),
        order=lambda: sources({"made": 1.0}),
        admission=AdmissionRule(batch_slots=4, group_size=2, max_lag=1),
    )
    run.steps(30)
    assert run.measure("sys/duplicates_refused") == [0.0] * 30


# -------------------------------------------------------------------------------------------------- incomplete groups


def test_a_group_that_waits_tries_its_failed_slot_again_until_it_comes():
    async def run(attempt):
        is_bad = (attempt.group_id, attempt.slot) == (0, 1) and attempt.attempt < 7
        return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="no disk") if is_bad else ended(attempt)

    dispatcher, ledger = make(run, incomplete="wait")
    batch, _ = asyncio.run(one_step(dispatcher))
    assert [len(g.members) for g in batch.groups] == [2, 2] and batch.groups[0].members[1].trajectory.attempt == 7
    assert len(batch.others) == 7 and "failed" not in ledger.balance().by_state


def test_a_group_that_would_wait_for_ever_ends_the_run_with_the_cause():
    async def run(attempt):
        return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="no disk")

    dispatcher, _ = make(run, incomplete="wait")
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(one_step(dispatcher))
    error = caught.value
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, NoProgressError) and "no disk" in str(error)


@pytest.mark.parametrize(("min_fraction", "kept"), [(0.5, [0, 1]), (0.6, [1, 2])])
def test_what_came_is_trained_where_enough_of_the_group_came(min_fraction, kept):
    async def run(attempt):
        is_bad = (attempt.group_id, attempt.slot) == (0, 1)
        return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="no disk") if is_bad else ended(attempt)

    dispatcher, ledger = make(run, min_fraction=min_fraction)
    batch, _ = asyncio.run(one_step(dispatcher))
    assert [g.group_id for g in batch.groups] == kept
    ledger.balance()


def test_groups_that_are_filtered_one_after_the_other_end_the_run():
    async def run(attempt):
        is_bad = attempt.slot == 1
        return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="no disk") if is_bad else ended(attempt)

    dispatcher, _ = make(run, incomplete="filter", max_attempts=1)
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(one_step(dispatcher))
    error = caught.value
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, NoProgressError) and "32 slots in a row" in str(error)


# -------------------------------------------------------------------------------------------------------- back-pressure


def test_no_group_is_started_while_no_episode_of_it_has_a_place():
    most = []

    async def run(attempt):
        most.append((attempt.group_id, attempt.slot))
        await asyncio.sleep(60)
        return ended(attempt)

    dispatcher = Dispatcher(
        DispatchRules(
            stage="rl",
            admission=AdmissionRule(batch_slots=400, group_size=4, max_lag=3),
            max_attempts=1,
            concurrency=10,
            incomplete="train",
            first_version=0,
        ),
        order=numbered_tasks(),
        counter=(counter := GroupCounter()),
        ledger=Ledger(noon),
        run_episode=run,
        score=score,
    )

    async def burst():
        working = asyncio.create_task(dispatcher.run())
        for _ in range(50):
            await asyncio.sleep(0)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    asyncio.run(burst())
    assert len(most) == 10 and counter.next_id == 3
