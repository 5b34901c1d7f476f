"""Tables as plain values: read strictly, changed by id, compared row by row."""

import pytest

from rollwright.tasks import Change, Table, TaskError, apply_changes, difference, read_changes, read_tables

INITIAL = {
    "sales.orders": Table(columns=("id", "item", "status"), rows={4: (4, "bolt", "open"), 7: (7, "nut", "open")}),
    "desk.notes": Table(columns=("id", "text")),
}
CANCEL = Change(table="sales.orders", key=4, cells={"status": "cancelled"})
NOTE = Change(table="desk.notes", key=None, cells={"text": "late"})


def test_tables_and_changes_read_back_as_they_were_written():
    assert read_tables({name: table.json() for name, table in INITIAL.items()}) == INITIAL
    assert read_changes([CANCEL.json(), NOTE.json()]) == (CANCEL, NOTE)


def test_changes_set_insert_and_delete_and_leave_the_initial_state_alone():
    after = apply_changes(INITIAL, [CANCEL, NOTE, Change(table="sales.orders", key=7, cells=None)])
    assert after["sales.orders"].rows == {4: (4, "bolt", "cancelled")}
    assert after["desk.notes"].rows == {1: (1, "late")}
    assert INITIAL["sales.orders"].rows[4] == (4, "bolt", "open")


def test_equal_states_have_no_difference_and_every_other_row_is_named():
    wanted = apply_changes(INITIAL, [CANCEL])
    assert difference(wanted, apply_changes(INITIAL, [CANCEL]), initial=INITIAL) == ()
    found = apply_changes(INITIAL, [Change(table="sales.orders", key=7, cells={"status": "cancelled"}), NOTE])
    assert difference(wanted, found, initial=INITIAL) == (
        "desk.notes: a new row ['late'] that nobody asked for",
        "sales.orders/4: status is 'open', wanted 'cancelled'",
        "sales.orders/7: status is 'cancelled', wanted 'open'",
    )


def test_new_rows_are_compared_by_content_and_count_whatever_their_ids():
    other = Change(table="desk.notes", key=None, cells={"text": "early"})
    one, two = apply_changes(INITIAL, [NOTE, other]), apply_changes(INITIAL, [other, NOTE])
    assert difference(one, two, initial=INITIAL) == ()
    assert difference(one, apply_changes(INITIAL, [NOTE, other, NOTE]), initial=INITIAL) != ()


def test_a_number_is_not_the_text_of_it_nor_a_fraction():
    def state(cell):
        return {"a.b": Table(columns=("id", "x"), rows={1: (1, cell)})}

    for other in ("1", 1.0, None):
        assert difference(state(1), state(other), initial=state(1))


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"a.b": None},
        {"a.b": {"columns": ["id"], "rows": [[]]}},
        {"a.b": {"columns": ["id"], "rows": [["1"]]}},
        {"a.b": {"columns": ["id"], "rows": [[True]]}},
        {"a.b": {"columns": ["id"], "rows": [[1], [1]]}},
        {"a.b": {"columns": ["id", "x"], "rows": [[1]]}},
        {"a.b": {"columns": ["x"], "rows": []}},
    ],
)
def test_what_is_no_table_is_refused(value):
    with pytest.raises(TaskError):
        read_tables(value)


@pytest.mark.parametrize(
    "change",
    [
        Change(table="none.such", key=1, cells={}),
        Change(table="sales.orders", key=99, cells={}),
        Change(table="sales.orders", key=4, cells={"price": 3}),
        Change(table="sales.orders", key=4, cells={"id": 3}),
    ],
)
def test_a_change_of_what_there_is_not_is_refused(change):
    with pytest.raises(TaskError):
        apply_changes(INITIAL, [change])
