"""gates.json: verdicts come back as they were, belong to their step, and are never half written."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.evidence import EvidenceError, RunFolder
from rollwright.evidence.gates import GatePurpose, GateRecord, drop_gates_after, read_gates, record_gates
from rollwright.record.gates import Bound, GateVerdict, Measured
from tests.evidence.runs import START, manifest


def verdict_of(gate: str, value: float | None) -> GateVerdict:
    return GateVerdict(
        gate=gate,
        outcome="not enough evidence" if value is None else "passed",
        bound=Bound(side="at_least", limit=0.5),
        measured=Measured(value=value, num_items=3, source="by hand"),
        because="by hand",
    )


def record_of(gate: str, step: int, *, purpose: GatePurpose = "run", value: float | None = 0.75) -> GateRecord:
    return GateRecord(
        at=START,
        step=step,
        purpose=purpose,
        what="entropy/full, last",
        verdict=verdict_of(gate, value),
        label="I",
        limit_source="chosen",
    )


@pytest.fixture
def folder(tmp_path: Path):
    with RunFolder.create(tmp_path / "run", manifest(), "[run]\n") as made:
        yield made


def test_a_run_without_verdicts_has_none(folder: RunFolder):
    assert read_gates(folder.path) == ()


@pytest.mark.parametrize("value", [0.75, None, float("inf"), float("-inf"), 0.1 + 0.2])
def test_a_verdict_comes_back_as_it_was(folder: RunFolder, value: float | None):
    record_gates(folder.path, [record_of("a", 1, value=value)])
    assert read_gates(folder.path) == (record_of("a", 1, value=value),)


def test_judging_again_replaces_the_verdict_of_the_same_gate_step_and_purpose(folder: RunFolder):
    record_gates(folder.path, [record_of("a", 1, value=0.75), record_of("a", 1, purpose="promotion")])
    record_gates(folder.path, [record_of("a", 1, value=None), record_of("a", 2)])
    assert read_gates(folder.path) == (
        record_of("a", 1, purpose="promotion"),
        record_of("a", 1, value=None),
        record_of("a", 2),
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 9))
def test_what_came_later_than_a_checkpoint_never_happened(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], last: int
):
    with RunFolder.create(tmp_path_factory.mktemp("run") / "run", manifest(), "[run]\n") as made:
        records = [record_of(f"gate {place}", step) for place, step in enumerate(steps)]
        record_gates(made.path, records)
        gone = drop_gates_after(made.path, last)
        assert list(gone) == [one for one in records if one.step > last]
        assert list(read_gates(made.path)) == [one for one in records if one.step <= last]


def test_nothing_is_written_without_the_lock(folder: RunFolder):
    folder.close()
    with pytest.raises(EvidenceError, match="for reading"):
        record_gates(folder.path, [record_of("a", 1)])


def test_what_a_killed_write_left_counts_for_nothing(folder: RunFolder):
    record_gates(folder.path, [record_of("a", 1)])
    (folder.path / ".gates.json.partial").write_text('{"schema_version": 1, "ga', encoding="utf-8")
    assert read_gates(folder.path) == (record_of("a", 1),)
    record_gates(folder.path, [record_of("b", 1)])
    assert [one.verdict.gate for one in read_gates(folder.path)] == ["a", "b"]
    assert not (folder.path / ".gates.json.partial").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not json", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"schema_version": 2, "gates": []}', "schema 2"),
        ('{"schema_version": 1, "gates": [{}]}', "gates.0"),
    ],
)
def test_a_file_that_rollwright_did_not_write_is_refused(folder: RunFolder, text: str, said: str):
    (folder.path / "gates.json").write_text(text, encoding="utf-8")
    with pytest.raises(EvidenceError, match=said):
        read_gates(folder.path)
