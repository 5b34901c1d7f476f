"""Two runs that did the same have one hash; whatever differs in what was done changes it."""

import dataclasses
from datetime import timedelta

import pytest

from rollwright.evidence import CommitRows, RunFolder, content_hash, table_hashes
from tests.evidence.runs import START, evaluation, manifest, metric, trained_step, written_run


def changed(path, change) -> str:
    with RunFolder.create(path, manifest(), "") as folder:
        folder.commit(evaluation(0), at=START)
        folder.commit(trained_step(1), at=START)
        folder.commit(change(trained_step(2)), at=START)
    return content_hash(path)


@pytest.fixture(scope="module")
def due(tmp_path_factory) -> str:
    return content_hash(written_run(tmp_path_factory.mktemp("hash") / "run"))


def later(rows: CommitRows) -> CommitRows:
    hour = timedelta(hours=1)
    slow = [
        dataclasses.replace(
            t,
            verifying_s=9.0,
            verdicts=tuple(dataclasses.replace(v, latency_s=9.0) for v in t.verdicts),
            trajectory=dataclasses.replace(
                t.trajectory,
                started_at=t.trajectory.started_at + hour,
                ended_at=t.trajectory.ended_at + hour,
                sampling_s=9.0,
                tool_calls=tuple(
                    dataclasses.replace(c, started_at=c.started_at + hour, latency_s=9.0)
                    for c in t.trajectory.tool_calls
                ),
            ),
        )
        for t in rows.trajectories
    ]
    return dataclasses.replace(
        rows,
        trajectories=slow,
        ledger=[dataclasses.replace(r, recorded_at=r.recorded_at + hour) for r in rows.ledger],
        metrics=[
            dataclasses.replace(m, recorded_at=m.recorded_at + hour, value=99.0 if m.unit == "s" else m.value)
            for m in rows.metrics
        ]
        + [metric("tokens_per_s", 5.0, step=2, unit="tokens/s")],
    )


def test_time_and_rate_do_not_count(tmp_path, due):
    assert changed(tmp_path / "run", later) == due


def test_the_order_in_which_episodes_ended_does_not_count(tmp_path, due):
    def turned(rows: CommitRows) -> CommitRows:
        by_slot = sorted(rows.ledger, key=lambda r: -r.slot)
        return dataclasses.replace(rows, trajectories=list(reversed(rows.trajectories)), ledger=by_slot)

    assert changed(tmp_path / "run", turned) == due


def test_kill_and_resume_do_not_count(tmp_path, due):
    path = written_run(tmp_path / "run", steps=1)
    with RunFolder.open(path, "write") as folder:
        folder.commit(trained_step(2, groups=1), at=START)
        folder.abandon_after(2)
        folder.commit(trained_step(2), at=START)
    assert content_hash(path) == due


def test_what_a_later_command_added_does_not_count(tmp_path, due):
    path = written_run(tmp_path / "run")
    with RunFolder.open(path, "write") as folder:
        folder.commit(evaluation(2, kind="evaluation", group_id=folder.first_group_id), at=START)
    assert content_hash(path) == due


def one_token(rows: CommitRows) -> CommitRows:
    scored, *rest = rows.trajectories
    segments = list(scored.trajectory.segments)
    ids = segments[1].token_ids.copy()
    ids[0] += 1
    segments[1] = dataclasses.replace(segments[1], token_ids=ids)
    trajectory = dataclasses.replace(scored.trajectory, segments=tuple(segments))
    return dataclasses.replace(rows, trajectories=[dataclasses.replace(scored, trajectory=trajectory), *rest])


def last_bit_of_a_loss(rows: CommitRows) -> CommitRows:
    first, *rest = rows.receipts
    import math

    nudged = dataclasses.replace(first, loss=math.nextafter(first.loss, 1.0))
    return dataclasses.replace(rows, receipts=[nudged, *rest])


def a_metric(rows: CommitRows) -> CommitRows:
    return dataclasses.replace(rows, metrics=[*rows.metrics, metric("entropy", 0.3, step=2)])


def a_state(rows: CommitRows) -> CommitRows:
    *rest, last = rows.ledger
    return dataclasses.replace(rows, ledger=[*rest, dataclasses.replace(last, rule="late")])


@pytest.mark.parametrize(
    ("change", "table"),
    [(one_token, "segments"), (last_bit_of_a_loss, "receipts"), (a_metric, "metrics"), (a_state, "ledger")],
)
def test_whatever_was_done_counts_and_the_table_is_named(tmp_path, due, change, table):
    assert changed(tmp_path / "run", change) != due
    same = table_hashes(written_run(tmp_path / "same"))
    other = table_hashes(tmp_path / "run")
    assert [name for name in same if same[name] != other[name]] == [table]


def test_an_empty_run_has_a_hash(tmp_path):
    RunFolder.create(tmp_path / "run", manifest(), "").close()
    assert len(content_hash(tmp_path / "run")) == 64
