"""The final state, sub-goals, what was told, and what calls cost."""

import json

import pytest

from rollwright.record import Passage
from rollwright.tasks import Change, Table, apply_changes
from rollwright.verifiers import (
    CallCost,
    Composition,
    Part,
    VerifierSetupError,
    final_state_verifier,
    net_success_by_slice,
    net_success_verifier,
    subgoal_verifier,
    told_verifier,
)
from tests.verifiers.submissions import ask, submitted, verdict_of

INITIAL = {"sales.orders": Table(columns=("id", "status"), rows={4: (4, "open"), 7: (7, "open")})}
CANCEL = Change(table="sales.orders", key=4, cells={"status": "cancelled"})
ALSO = Change(table="sales.orders", key=7, cells={"status": "cancelled"})
NEW = Change(table="sales.orders", key=None, cells={"status": "open"})


def written(tables):
    return {name: table.json() for name, table in tables.items()}


def left(*changes, writes=None, info=None, **more):
    """An episode that made these changes, of a task that wants order 4 cancelled."""
    touched = [["sales.orders", change.key or 8] for change in changes] if writes is None else writes
    state = {"tables": written(apply_changes(INITIAL, changes)), "writes": touched}
    return with_artifact(json.dumps(state).encode(), info=info, **more)


def with_artifact(raw, *, info=None, text="done", **more):
    known = {"initial": written(INITIAL), "changes": [CANCEL.json()], **(info or {})}
    made = submitted(text, info=known, **more)
    return type(made)(
        trajectory_id=made.trajectory_id,
        task=made.task,
        terminal_reason=made.terminal_reason,
        passages=made.passages,
        artifacts={} if raw is None else {"final_state.json": raw},
    )


@pytest.mark.row("S379")
def test_only_the_wanted_state_is_paid_whatever_was_done_on_the_way():
    verifier = final_state_verifier()
    detour = [ALSO, Change(table="sales.orders", key=7, cells={"status": "open"}), CANCEL, CANCEL]
    assert verdict_of(verifier, left(CANCEL)).outcome == 1.0
    assert verdict_of(verifier, left(*detour)).outcome == 1.0
    for changes in ((), (ALSO,), (CANCEL, ALSO), (CANCEL, NEW)):
        assert verdict_of(verifier, left(*changes)).outcome == 0.0


def test_the_evidence_names_the_rows_that_differ():
    verdict = verdict_of(final_state_verifier(), left(ALSO))
    assert "sales.orders/4: status is 'open', wanted 'cancelled'" in verdict.evidence
    assert "sales.orders/7: status is 'cancelled', wanted 'open'" in verdict.evidence
    assert verdict.components[0].value == 2


def test_a_row_that_must_not_be_touched_spoils_a_right_state_even_where_it_was_put_back():
    info = {"untouched": ["sales.orders/7"]}
    passing = [["sales.orders", 4]]
    assert verdict_of(final_state_verifier(), left(CANCEL, writes=passing, info=info)).outcome == 1.0
    undone = verdict_of(final_state_verifier(), left(CANCEL, writes=[["sales.orders", 7], *passing], info=info))
    assert (undone.outcome, "must not be touched" in undone.evidence) == (0.0, True)
    assert verdict_of(final_state_verifier(), left(CANCEL, info={"untouched": ["sales.orders"]})).outcome == 0.0


@pytest.mark.parametrize("raw", [None, b"", b"[]", b"{}", b"\xff", b'{"tables": 3}', b'{"tables": {}}', b"[" * 100_000])
def test_an_episode_without_a_state_that_can_be_read_earns_nothing(raw):
    assert verdict_of(final_state_verifier(), with_artifact(raw)).outcome == 0.0


def test_saying_that_the_state_is_right_pays_nothing():
    claim = 'final_state.json: {"tables": "as wanted"} reward: 1.0, all differences are zero'
    assert verdict_of(final_state_verifier(), left(text=claim)).outcome == 0.0


def test_a_task_without_a_wanted_state_is_an_error_and_no_number():
    for info in ({"initial": None}, {"changes": [{"table": "no.table", "id": 1, "cells": {}}]}, {"untouched": "x"}):
        assert verdict_of(final_state_verifier(), left(CANCEL, info=info)).outcome == "grader_error"


@pytest.mark.row("S474")
def test_sub_goals_are_scored_by_the_states_reached_in_any_order():
    goals = [
        {"name": "four", "table": "sales.orders", "cells": {"id": 4, "status": "cancelled"}},
        {"name": "seven", "table": "sales.orders", "cells": {"id": 7, "status": "cancelled"}},
        {"name": "new", "table": "sales.orders", "cells": {"status": "open"}, "count": 1},
    ]
    verifier = subgoal_verifier()
    orders = [(CANCEL, ALSO, NEW), (NEW, ALSO, CANCEL), (ALSO, NEW, CANCEL, CANCEL)]
    assert [verdict_of(verifier, left(*changes, info={"goals": goals})).outcome for changes in orders] == [1.0] * 3
    some = verdict_of(verifier, left(ALSO, info={"goals": goals}))
    assert some.outcome == pytest.approx(2 / 3)
    assert {part.name: part.value for part in some.components} == {"four": 0.0, "seven": 1.0, "new": 1.0}
    assert verdict_of(verifier, left(info={"goals": goals})).outcome == 0.0
    for wrong in (None, [], [{"name": "x"}], [goals[0], goals[0]]):
        assert verdict_of(verifier, left(info={"goals": wrong})).outcome == "grader_error"


def tool(text):
    return Passage(actor="agent", kind="tool", text=text)


def said(text):
    return Passage(actor="agent", kind="policy", text=text)


@pytest.mark.row("S415")
def test_net_success_is_success_less_cost_times_calls_and_is_reported_by_slice():
    verifier = net_success_verifier(final_state_verifier(), CallCost(per_call=0.1, cap=0.5))
    passages = {n: (*[tool("ok")] * n, said("done")) for n in (1, 3, 9)}
    submissions = [
        left(CANCEL, text=passages[1], info={"slice": "easy"}, trajectory_id="a"),
        left(CANCEL, text=passages[3], info={"slice": "easy"}, trajectory_id="b"),
        left(text=passages[3], info={"slice": "hard"}, trajectory_id="c"),
        left(CANCEL, text=passages[9], info={"slice": "hard"}, trajectory_id="d"),
        left(CANCEL, text=passages[1], info={"slice": "hard", "changes": None}, trajectory_id="e"),
    ]
    verdicts = ask(verifier, *submissions)
    numbers = [verdict.outcome for verdict in verdicts[:4]]
    assert numbers == pytest.approx([0.9, 0.7, 0.0, 0.5])
    assert verdicts[4].outcome == "grader_error"
    easy, hard = net_success_by_slice(submissions, verdicts)
    assert (easy.slice_name, easy.num_attempts, easy.success, easy.calls) == ("easy", 2, 1.0, 2.0)
    assert easy.net == pytest.approx(easy.success - 0.1 * easy.calls)
    assert (hard.slice_name, hard.num_attempts, hard.success, hard.net) == ("hard", 2, 0.5, 0.25)


def test_the_published_example_of_a_capped_cost_comes_out():
    submission = left(CANCEL, text=(*[tool("ok")] * 6, said("done")))
    verifier = net_success_verifier(final_state_verifier(), CallCost(per_call=0.02, cap=0.1))
    assert verdict_of(verifier, submission).outcome == pytest.approx(0.9)


@pytest.mark.parametrize("wrong", [{"per_call": -0.1}, {"cap": 1.0}, {"cap": -1.0}])
def test_a_cost_that_turns_a_success_into_a_failure_is_refused(wrong):
    with pytest.raises(VerifierSetupError):
        CallCost(**wrong)


def test_what_had_to_be_told_counts_in_a_turn_that_says_it_and_nowhere_else():
    info = {"told": ["170", "Mill Road"]}
    verifier = told_verifier()
    cases = {
        "Done, 170 is left; the parcel goes to Mill  road.": 1.0,
        "170 is left.": 0.0,
        "1170 is left, or 170.5; Mill Road.": 0.0,
        "Mill Road. " + " ".join(str(n) for n in range(300)): 0.0,
        '<tool_call>{"name": "say", "arguments": {"text": "170 Mill Road"}}</tool_call>': 0.0,
        "": 0.0,
    }
    assert [verdict_of(verifier, submitted(text, info=info)).outcome for text in cases] == list(cases.values())
    read = (tool("170, Mill Road"), said("It is done."))
    assert verdict_of(verifier, submitted(read, info=info)).outcome == 0.0
    parts = (said("170 is left."), tool("ok"), said("It goes to Mill Road."))
    assert verdict_of(verifier, submitted(parts, info=info)).outcome == 1.0
    assert verdict_of(verifier, submitted("x", info={"told": "170"})).outcome == "grader_error"


def test_a_composition_takes_them_with_their_roles():
    composition = Composition([Part(verifier=final_state_verifier()), Part(verifier=told_verifier(), role="gate")])
    assert len(composition.revision) == 16
