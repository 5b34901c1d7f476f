"""The ledger: every slot in one state, no slot trained twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.runtime.errors import LedgerError
from rollwright.runtime.ledger import Ledger, LedgerBalance, SlotChange
from tests.runtime.fakes import noon, task

STATES = ["in_flight", "ready", "trained", "filtered", "expired", "failed", "requeued"]


def change(state, *, group=0, slot=0, attempt=0):
    return SlotChange(
        group_id=group, slot=slot, attempt=attempt, state=state, task=task(group), step=1, policy_version=0
    )


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.sampled_from(STATES)), max_size=60))
def test_the_account_balances_after_any_changes_and_refuses_the_rest(changes):
    ledger = Ledger(noon)
    dispatched, trained = 0, {}
    for group, slot, state in changes:
        try:
            ledger.enter(change(state, group=group, slot=slot))
        except LedgerError:
            continue
        if state == "trained":
            trained[group, slot] = trained.get((group, slot), 0) + 1
        balance = ledger.balance()
        assert sum(balance.by_state.values()) == balance.dispatched
        dispatched = balance.dispatched
    rows = ledger.take_rows()
    assert len({(r.group_id, r.slot) for r in rows}) <= max(dispatched, 0) or dispatched == 0
    assert ledger.take_rows() == ()


@pytest.mark.parametrize("state", [s for s in STATES if s != "in_flight"])
def test_what_was_never_dispatched_can_only_be_dispatched(state):
    with pytest.raises(LedgerError, match="not in flight"):
        Ledger(noon).enter(change(state))


def test_a_second_delivery_of_a_slot_is_refused():
    ledger = Ledger(noon)
    ledger.enter(change("in_flight"))
    ledger.enter(change("ready"))
    with pytest.raises(LedgerError, match="trained at most once"):
        ledger.enter(change("ready"))
    ledger.enter(change("trained"))
    with pytest.raises(LedgerError, match="trained at most once"):
        ledger.enter(change("trained"))


def test_a_restored_balance_goes_on_counting():
    ledger = Ledger(noon, LedgerBalance(dispatched=3, by_state={"trained": 3}))
    ledger.enter(change("in_flight", group=9))
    assert ledger.balance() == LedgerBalance(dispatched=4, by_state={"in_flight": 1, "trained": 3})
