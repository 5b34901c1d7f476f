"""The table of faults, and the account that decides whether one has passed."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.cli.main import run_command
from rollwright.recipes.drills.account import Due, follow_slots
from rollwright.recipes.drills.faults import FAULTS, chosen_faults
from rollwright.recipes.drills.smallness import RL_STEPS, small_settings
from rollwright.recipes.drills.strikes import Strikes
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import resolve
from rollwright.record import LedgerRow, LedgerState

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DUE = Due(group_size=2, batch_slots=4, max_lag=0, rl_steps=1)
TRAINED = ("in_flight", "ready", "trained")
HISTORIES = (
    TRAINED,
    ("in_flight", "in_flight", "ready", "trained"),
    ("in_flight", "failed"),
    ("in_flight", "failed", "filtered"),
    ("in_flight", "ready", "filtered"),
    ("in_flight", "ready", "expired"),
    ("in_flight", "requeued"),
    ("in_flight", "ready", "requeued"),
)


def rows(*slots: tuple[int, int, tuple[str, ...]], step: int = 1, version: int = 0) -> list[LedgerRow]:
    """Rows of (group, slot, its states)."""
    every = [(group, slot, state) for group, slot, states in slots for state in states]
    return [
        LedgerRow(
            seq=seq,
            recorded_at=NOON,
            step=step,
            group_id=group,
            slot=slot,
            attempt=0,
            task_id=f"made/{group}",
            task_source="made",
            state=cast("LedgerState", state),
            rule=None,
            trajectory_id=None,
            successor=None,
            policy_version=version,
        )
        for seq, (group, slot, state) in enumerate(every)
    ]


BATCH = [(group, slot, TRAINED) for group in (0, 1) for slot in (0, 1)]


def test_a_batch_that_was_trained_balances():
    account = follow_slots(rows(*BATCH), DUE)
    assert account.wrong == ()
    assert str(account) == (
        "4 dispatched = 0 in flight + 0 ready + 4 trained + 0 filtered + 0 expired + 0 failed + 0 requeued"
    )


@given(st.lists(st.tuples(st.sampled_from(HISTORIES[2:]), st.sampled_from(HISTORIES[2:])), max_size=6))
def test_whatever_else_came_to_an_end_balances_too(others):
    more = [(10 + n, slot, states) for n, pair in enumerate(others) for slot, states in enumerate(pair)]
    account = follow_slots(rows(*BATCH, *more), DUE)
    assert account.wrong == ()
    assert account.sum == account.dispatched == 4 + 2 * len(others)


@given(st.integers(0, 3))
def test_a_lost_slot_is_missed(lost):
    kept = [slot for number, slot in enumerate(BATCH) if number != lost]
    group, slot, _ = BATCH[lost]
    assert f"group {group} has no slot {slot}: it was lost" in follow_slots(rows(*kept), DUE).wrong


@pytest.mark.parametrize(
    ("states", "wrong"),
    [
        (("ready", "trained"), "slot 1 of group 1 begins ready and was never dispatched"),
        (("in_flight", "trained"), "slot 1 of group 1 went from in_flight to trained"),
        ((*TRAINED, "trained"), "slot 1 of group 1 was trained 2 times"),
        ((*TRAINED, "ready"), "slot 1 of group 1 went from trained to ready"),
        (("in_flight", "ready"), "slot 1 of group 1 is ready at the end: it was lost"),
        (("in_flight",), "slot 1 of group 1 is in flight at the end: it was lost"),
    ],
)
def test_a_slot_that_went_where_none_goes_is_named(states, wrong):
    assert wrong in follow_slots(rows(*BATCH[:3], (1, 1, states)), DUE).wrong


def test_a_batch_without_one_of_its_groups_is_named():
    (wrong,) = follow_slots(rows(*BATCH[:2]), DUE).wrong
    assert wrong == "step 1 trained 1 groups of 2; a batch has 4 slots: a group was lost or came twice"


def test_a_step_that_trained_nothing_is_named():
    due = Due(group_size=2, batch_slots=4, max_lag=0, rl_steps=2)
    assert follow_slots(rows(*BATCH), due).wrong == ("1 RL steps trained a batch; 2 were asked for",)


def test_with_lag_what_is_young_may_be_open_at_the_end_and_what_is_old_may_not():
    due = Due(group_size=2, batch_slots=4, max_lag=1, rl_steps=1)
    young = [*rows(*BATCH, step=5, version=4), *rows((2, 0, ("in_flight", "ready")), (2, 1, ("in_flight",)), version=3)]
    assert follow_slots(young, due).wrong == ()
    old = [*rows(*BATCH, step=5, version=4), *rows((2, 0, ("in_flight", "ready")), (2, 1, ("in_flight",)), version=2)]
    assert follow_slots(old, due).wrong == ("slot 0 of group 2 is ready since version 2 and nobody took it",)


def test_what_is_dispatched_again_is_followed_by_the_same_task():
    again = [
        replace(row, successor=1) if row.state == "requeued" else row
        for row in rows(*BATCH, (7, 0, ("in_flight", "requeued")), (7, 1, ("in_flight", "requeued")))
    ]
    assert follow_slots(again, DUE).wrong == ("group 1 is of another task than group 7, which it follows",) * 2
    gone = [
        replace(row, successor=99) if row.state == "requeued" else row
        for row in rows(*BATCH, (7, 0, ("in_flight", "requeued")), (7, 1, TRAINED[:1] + ("failed",)))
    ]
    assert follow_slots(gone, DUE).wrong == ("group 7 was dispatched again as group 99, which is missing",)


def test_each_fault_says_what_it_does_and_what_must_hold():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 20
    for fault in FAULTS:
        assert fault.does and fault.holds and fault.outcomes
        strikes = [fault.engine, fault.environment, fault.verifier, fault.stops_at]
        others = [fault.learner != "none", fault.delivery != "once", fault.clock != "steady"]
        assert sum(x is not None for x in strikes) + sum(others) == 1, fault.name


def test_faults_are_chosen_by_name_and_a_wrong_name_is_refused_with_the_nearest():
    assert chosen_faults("all") == FAULTS
    assert [fault.name for fault in chosen_faults("disk_full, engine_dies,disk_full")] == ["disk_full", "engine_dies"]
    with pytest.raises(RecipeError, match=r"no fault 'disc_full'.*Did you mean disk_full\?"):
        chosen_faults("disc_full")
    with pytest.raises(RecipeError, match="no fault is named"):
        chosen_faults(",")


def test_strikes_count_from_the_moment_they_are_armed():
    strikes = Strikes(first=2, every=3, most=2)
    assert not any(strikes.hit() for _ in range(9))
    strikes.arm()
    assert [strikes.hit() for _ in range(12)] == [n in (2, 5) for n in range(1, 13)]
    assert strikes.hits == 2


def test_a_strike_that_found_nothing_to_break_is_none_and_the_next_that_is_due_stands_in_for_it():
    strikes = Strikes(first=2, every=3, most=1)
    strikes.arm()
    struck = []
    for event in range(1, 12):
        if strikes.hit():
            struck.append(event)
            if event < 8:
                strikes.missed()
    assert (struck, strikes.hits, strikes.misses) == ([2, 5, 8], 1, 2)


@pytest.mark.parametrize("recipe", ["arithmetic-tool", "interpreter-tiny", "text-world-tiny", "workplace-tiny"])
def test_a_recipe_made_small_keeps_its_parts(recipe):
    base = resolve(recipe).recipe
    small = resolve(recipe, small_settings(base)).recipe
    assert small.run.steps == RL_STEPS and small.rollout.batch_size == 8
    assert (small.environment, small.verifier, small.objective) == (base.environment, base.verifier, base.objective)
    assert small.rollout.truncation == base.rollout.truncation


def test_the_faults_are_listed_without_running_anything(capsys):
    assert run_command(["drill", "arithmetic-tool", "--list", "--json"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["fault"] for line in listed] == [fault.name for fault in FAULTS]
    assert run_command(["drill", "arithmetic-tool", "--faults", "disc_full"]) == 2
    assert "Did you mean disk_full?" in capsys.readouterr().err
