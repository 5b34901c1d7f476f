"""The state of a run as text: read back as it was, and refused where another schema wrote it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.runtime.errors import RuntimeRunError
from rollwright.runtime.ledger import LedgerBalance
from rollwright.runtime.loop import beginning
from rollwright.runtime.parts import CollectorState, GroupCounter
from rollwright.runtime.progress import EvaluationPoint, Progress

counts = st.integers(0, 2**62)
shares = st.floats(0, 1) | st.none()
names = st.text("abcdef_", min_size=1)
points = st.builds(EvaluationPoint, step=counts, success=shares, low=shares, high=shares, num_tasks=counts)
progresses = st.builds(
    Progress,
    step=counts,
    update=counts,
    stage=counts,
    stage_step=counts,
    next_group=counts,
    collector=st.builds(
        CollectorState,
        trained_slots=counts,
        steps=counts,
        order=st.none() | st.dictionaries(names, counts),
    ),
    balance=st.builds(LedgerBalance, dispatched=counts, by_state=st.dictionaries(names, counts)),
    controllers=st.lists(st.dictionaries(names, st.floats(allow_nan=False, allow_infinity=False))).map(tuple),
    evaluations=st.lists(points).map(tuple),
)


@given(progresses)
def test_what_is_written_is_read_as_it_was(progress):
    assert Progress.from_json(progress.to_json()) == progress


def test_a_run_begins_at_zero_with_the_counters_next_group():
    start = beginning(GroupCounter(7))
    assert (start.step, start.update, start.stage, start.stage_step, start.next_group) == (0, 0, 0, 0, 7)
    assert start.evaluations == () and start.balance == LedgerBalance(dispatched=0, by_state={})


@pytest.mark.parametrize("version", [0, 2, None])
def test_the_state_of_another_schema_is_refused_with_what_to_do(version):
    tree = json.loads(beginning(GroupCounter()).to_json()) | {"schema_version": version}
    with pytest.raises(RuntimeRunError, match=f"schema version {version}; this rollwright reads 1. Resume with the"):
        Progress.from_json(json.dumps(tree))
