"""One cancellation ends a collector, wherever its episodes are and whatever becomes of the cancellation in them."""

import asyncio

import pytest

from rollwright.record import TerminalReason
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.dispatcher import Dispatcher, DispatchRules
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.parts import GroupCounter
from tests.runtime.dispatching import parked
from tests.runtime.fakes import ended, noon, numbered_tasks, score


def cut(attempt):
    """Parked until the next step."""
    return parked(ended(attempt, TerminalReason.SUPERSEDED), left=1.0)


def failed(attempt):
    return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="no disk")


async def cancelled(run):
    """Cancel a collector whose first batch is full and whose second group is held, and wait for its end."""
    dispatcher = Dispatcher(
        DispatchRules(
            stage="rl",
            admission=AdmissionRule(batch_slots=2, group_size=2, max_lag=1, extra_slots=2),
            max_attempts=1000,
            concurrency=100,
            incomplete="train",
            first_version=0,
            stragglers="park",
        ),
        order=numbered_tasks(),
        counter=GroupCounter(),
        ledger=Ledger(noon),
        run_episode=run,
        score=score,
    )
    working = asyncio.ensure_future(dispatcher.run())
    await asyncio.wait_for(dispatcher.collect(1), 10)
    for _ in range(20):
        await asyncio.sleep(0)
    working.cancel()
    done, _ = await asyncio.wait({working}, timeout=5)
    return working in done and working.cancelled()


def test_a_parked_episode_that_waits_for_the_next_step_holds_up_no_end():
    async def run(attempt):
        while attempt.group_id and attempt.interruption.reason is None:  # noqa: ASYNC110 - an interruption has no event
            await asyncio.sleep(0)
        return cut(attempt) if attempt.group_id else ended(attempt)

    assert asyncio.run(cancelled(run))


@pytest.mark.parametrize("end", [cut, failed, ended])
def test_an_episode_in_which_the_cancellation_is_lost_is_gone_on_with_no_more(end):
    asked = []

    async def run(attempt):
        if attempt.group_id == 0:
            return ended(attempt)
        asked.append((attempt.group_id, attempt.slot))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # So does `asyncio.wait_for` of Python 3.11 where it comes together with what is waited for.
            return end(attempt)

    assert asyncio.run(cancelled(run))
    assert len(asked) == len(set(asked))
