"""The audit finds each fault that it names, planted one at a time in a run that is otherwise right."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from rollwright.evidence import CommitRows, RunFolder, check, query, query_text
from rollwright.evidence.commits import CommitDraft, newest_digest, write_commit
from rollwright.evidence.drafting import draft_tables
from rollwright.evidence.shards import file_sha256
from rollwright.record import Receipt
from rollwright.record.run_length import run_length
from tests.evidence.runs import START, ledger_row, metric, receipts, scored_trajectory, trained_step, written_run

Rows = Callable[[CommitRows], CommitRows]
Tables = dict[str, pa.Table]


def planted(path: Path, change: Rows, *, receipts: str = "full") -> Path:
    """A run whose second step is changed before it is committed."""
    written_run(path, steps=1, receipts=receipts)
    with RunFolder.open(path, "write") as folder:
        folder.commit(change(trained_step(2)), at=START)
    return path


def planted_below_the_codec(path: Path, change: Callable[[Tables], None]) -> Path:
    """The same, with tables that no record can express."""
    written_run(path, steps=1)
    with RunFolder.open(path, "write") as folder:
        rows = trained_step(2)
        tables, blobs = draft_tables(rows, "full", folder.commits[-1].last_seq + 1, frozenset())
        changed = dict(tables)
        change(changed)
        write_commit(
            path,
            CommitDraft(
                number=folder.next_commit,
                kind="step",
                step=2,
                committed_at=START,
                manifest_sha256=file_sha256(path / "manifest.json"),
                last_seq=99,
                previous_sha256=newest_digest(path),
                tables=changed,
                blobs=blobs,
            ),
        )
    return path


def audit(path: Path) -> list[tuple[object, ...]]:
    return list(query(path, query_text("audit")).rows)


def first(rows: CommitRows, **fields) -> CommitRows:
    return dataclasses.replace(rows, receipts=[dataclasses.replace(rows.receipts[0], **fields), *rows.receipts[1:]])


def weights(receipt: Receipt) -> np.ndarray:
    assert receipt.token_weight is not None
    return receipt.token_weight.expand()


def without_the_metric(rows: CommitRows) -> CommitRows:
    return dataclasses.replace(rows, metrics=[m for m in rows.metrics if m.name != "weight_sum"])


def without_receipts(rows: CommitRows) -> CommitRows:
    return dataclasses.replace(rows, receipts=[])


def on_a_tool_segment(rows: CommitRows) -> CommitRows:
    moved = run_length(weights(rows.receipts[0])[:2])
    return first(rows, segment=2, token_weight=moved)


def with_another_sum(rows: CommitRows) -> CommitRows:
    return first(rows, token_weight=run_length(2 * weights(rows.receipts[0])))


def with_a_weight_too_few(rows: CommitRows) -> CommitRows:
    """The sum stays right."""
    given = weights(rows.receipts[0])
    return first(rows, token_weight=run_length(np.full(len(given) - 1, given.sum() / (len(given) - 1))))


def without_weights(rows: CommitRows) -> CommitRows:
    return first(rows, token_weight=None)


def twice(rows: CommitRows) -> CommitRows:
    """Half of the weight each time, so the sum stays right."""
    half = dataclasses.replace(rows.receipts[0], token_weight=run_length(weights(rows.receipts[0]) / 2))
    return dataclasses.replace(rows, receipts=[half, half, *rows.receipts[1:]])


def of_an_evaluation(rows: CommitRows) -> CommitRows:
    held_out = scored_trajectory(group_id=500, slot=0, purpose="evaluation", version=rows.step - 1)
    free = receipts(held_out, step=rows.step, weight=0.0)
    return dataclasses.replace(rows, trajectories=[*rows.trajectories, held_out], receipts=[*rows.receipts, *free])


def of_a_trajectory_that_is_not_there(rows: CommitRows) -> CommitRows:
    return first(rows, trajectory_id="t999999-00-0")


def with_a_segment_left_out(rows: CommitRows) -> CommitRows:
    """Its weight goes to its neighbour, so the sum stays right."""
    gone, next_one = rows.receipts[0], rows.receipts[1]
    more = run_length(weights(next_one) + weights(gone).sum() / len(weights(next_one)))
    return dataclasses.replace(rows, receipts=[dataclasses.replace(next_one, token_weight=more), *rows.receipts[2:]])


def of_a_slot_that_was_filtered(rows: CommitRows) -> CommitRows:
    first_group = rows.trajectories[0].trajectory.group_id
    ledger = [
        dataclasses.replace(r, state="filtered", rule="zero_contrast")
        if r.state == "trained" and r.group_id == first_group and r.slot == 0
        else r
        for r in rows.ledger
    ]
    return dataclasses.replace(rows, ledger=ledger)


def of_an_earlier_step_again(rows: CommitRows) -> CommitRows:
    old = trained_step(1).trajectories[0]
    again = [dataclasses.replace(r, update=rows.step) for r in receipts(old, step=rows.step, weight=0.0)]
    return dataclasses.replace(rows, receipts=[*rows.receipts, *again])


def in_another_step_than_the_ledger_says(rows: CommitRows) -> CommitRows:
    return dataclasses.replace(rows, ledger=[dataclasses.replace(r, step=rows.step + 1) for r in rows.ledger])


FAULTS: Mapping[Rows, str] = {
    without_the_metric: "receipts without the metric",
    without_receipts: "the metric weight_sum says 1.0, and there are no receipts",
    on_a_tool_segment: "weigh what they must not",
    with_another_sum: "weights sum to 1.15",
    with_a_weight_too_few: "not token by token",
    without_weights: "not token by token",
    twice: "twice",
    of_an_evaluation: "weigh what they must not",
    of_a_trajectory_that_is_not_there: "weigh what they must not",
    with_a_segment_left_out: "it has no receipt",
    of_a_slot_that_was_filtered: "no slot of the ledger was trained with it",
    of_an_earlier_step_again: "receipts are of 2 steps",
    in_another_step_than_the_ledger_says: "the ledger says trained in step 3",
}


def test_a_right_run_has_no_row(tmp_path):
    path = planted(tmp_path / "run", lambda rows: rows)
    assert audit(path) == []
    report = check(path)
    assert report.is_sound
    assert (report.num_commits, report.num_receipts) == (3, 16)
    assert ["carries no tokenizer" in sentence for sentence in report.not_checked] == [True]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(tmp_path, fault):
    path = planted(tmp_path / "run", fault)
    assert audit(path), "the audit query gives no row"
    texts = [finding.text for finding in check(path).findings]
    assert any(FAULTS[fault] in text for text in texts), texts


def shorter_logprobs(tables: Tables) -> None:
    segments = tables["segments"]
    index = segments.column_names.index("behavior_logprobs")
    lists = cast("list[list[float] | None]", segments.column(index).to_pylist())
    values = [v if v is None else v[:-1] for v in lists]
    field = segments.schema.field(index)
    tables["segments"] = segments.set_column(index, field, pa.array(values, type=field.type))


def more_tokens_than_counted(tables: Tables) -> None:
    segments = tables["segments"]
    index = segments.column_names.index("token_ids")
    values = [[*v, 1] for v in cast("list[list[int]]", segments.column(index).to_pylist())]
    field = segments.schema.field(index)
    tables["segments"] = segments.set_column(index, field, pa.array(values, type=field.type))


@pytest.mark.parametrize("fault", [shorter_logprobs, more_tokens_than_counted])
def test_a_fault_that_no_record_can_express_is_found(tmp_path, fault):
    path = planted_below_the_codec(tmp_path / "run", fault)
    assert audit(path)
    assert any("not token by token" in finding.text for finding in check(path).findings)


def test_a_fault_in_one_component_is_found_beside_another_that_is_right(tmp_path):
    def with_kl(rows: CommitRows) -> CommitRows:
        kl = [dataclasses.replace(r, component="kl") for r in rows.receipts]
        due = metric("weight_sum", 1.0, step=2, update=2, model="policy", component="kl")
        return dataclasses.replace(rows, receipts=[*rows.receipts, *kl], metrics=[*rows.metrics, due])

    # The manifest trains no token under kl, so each of its receipts weighs a foreign token.
    [row] = audit(planted(tmp_path / "run", with_kl))
    assert row[0] == "2 policy kl"
    assert row[3] == 8


def test_check_names_keys_that_stand_twice_and_rows_without_their_trajectory(tmp_path):
    path = planted(tmp_path / "a", twice)
    assert any(f.text == "the key stands 2 times" for f in check(path).findings)
    path = planted(tmp_path / "b", of_a_trajectory_that_is_not_there)
    assert any(f.place == "receipts t999999-00-0" for f in check(path).findings)


def test_check_finds_a_slot_that_was_trained_twice(tmp_path):
    def again(rows: CommitRows) -> CommitRows:
        return dataclasses.replace(rows, ledger=[*rows.ledger, ledger_row(rows.trajectories[0], "trained", step=2)])

    path = planted(tmp_path / "run", again)
    assert any("trained 2 times" in f.text for f in check(path).findings)


@pytest.mark.parametrize("retention", ["runs", "sums"])
def test_retention_says_what_it_cannot_check_and_a_right_run_stays_sound(tmp_path, retention):
    path = planted(tmp_path / "run", lambda rows: rows, receipts=retention)
    report = check(path)
    assert report.is_sound
    assert any("dropped the log-probabilities" in text for text in report.not_checked)
    assert any("dropped the weights" in text for text in report.not_checked) == (retention == "sums")
    kept = query(path, "SELECT count(proximal_logprobs), count(token_weight), count(influence) FROM receipts").rows
    assert kept == ((0, 0 if retention == "sums" else 16, 16),)


STILL_FOUND_UNDER_SUMS = {fault: text for fault, text in FAULTS.items() if fault not in
                          (with_another_sum, with_a_weight_too_few, without_weights)}  # fmt: skip


@pytest.mark.parametrize(("retention", "faults"), [("runs", FAULTS), ("sums", STILL_FOUND_UNDER_SUMS)])
def test_whatever_is_retained_the_faults_of_many_steps_are_each_found_in_their_own(tmp_path, retention, faults):
    path = written_run(tmp_path / "run", steps=1, receipts=retention)
    with RunFolder.open(path, "write") as folder:
        for step, fault in enumerate(faults, 2):
            folder.commit(fault(trained_step(step)), at=START)
    findings = check(path).findings
    for step, (fault, text) in enumerate(faults.items(), 2):
        due = text.replace("trained in step 3", f"trained in step {step + 1}")
        hurt = 1 if fault is of_an_earlier_step_again else step
        assert any(due in f.text and is_of_step(f.place, hurt) for f in findings), (fault.__name__, findings)


def is_of_step(place: str, step: int) -> bool:
    """True for a place that names the update of a step or an episode of its two groups."""
    return place.startswith((f"{step} policy", *(f"t{group:06d}-" for group in (2 * step - 2, 2 * step - 1))))
