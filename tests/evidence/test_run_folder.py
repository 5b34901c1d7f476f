"""A run folder keeps what was committed, whole, whatever happens around it."""

import dataclasses
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rollwright.evidence import (
    GROUPS_PER_COMMIT,
    SCHEMA_VERSION,
    DiskFullError,
    Event,
    EvidenceError,
    FolderExistsError,
    NotARunError,
    RunFolder,
    RunLockedError,
    SchemaVersionError,
    ShardError,
    StoredRun,
    check,
    query,
)
from rollwright.record import TerminalReason
from tests.evidence.runs import (
    START,
    evaluation,
    ledger_row,
    manifest,
    scored_trajectory,
    trained_step,
    written_run,
)

ROOT = Path(__file__).parents[2]


def numbers(folder: RunFolder) -> list[tuple[int, str, int]]:
    return [(c.number, c.kind, c.step) for c in folder.commits]


def test_a_new_run_has_its_manifest_recipe_and_tokenizer(tmp_path):
    source = tmp_path / "tokenizer"
    source.mkdir()
    (source / "tokenizer.json").write_text("{}")
    made = manifest()
    with RunFolder.create(tmp_path / "run", made, "[run]\n", tokenizer=source) as folder:
        assert (folder.tokenizer / "tokenizer.json").read_text() == "{}"
    with RunFolder.open(tmp_path / "run") as folder:
        assert folder.manifest == made
        assert folder.recipe_toml == "[run]\n"
        assert folder.commits == ()


def test_commits_are_numbered_in_order_and_list_their_shards(tmp_path):
    folder = RunFolder.open(written_run(tmp_path / "run"))
    assert numbers(folder) == [(1, "step", 0), (2, "step", 1), (3, "step", 2)]
    names = sorted(p.name for p in (folder.path / "commits").glob("*.json"))
    assert names == ["000001-step.json", "000002-step.json", "000003-step.json"]
    assert [s.path for s in folder.commits[1].shards if s.table == "segments"] == ["segments/000002.parquet"]
    assert query(folder.path, "SELECT count(*) FROM trajectories").rows == ((9,),)


def test_a_writer_keeps_heads_and_reads_its_commits_when_they_are_asked_for(tmp_path):
    path = written_run(tmp_path / "run")
    with RunFolder.open(path, "write") as folder:
        written = folder.commit(trained_step(3), at=START)
        assert [(head.number, head.step) for head in folder.heads] == [(1, 0), (2, 1), (3, 2), (4, 3)]
        assert not any("shards" in type(head).__slots__ for head in folder.heads)
        assert folder.commits[-1] == written
        assert folder.commits == RunFolder.open(path).commits


def test_shards_split_floats_by_byte_and_keep_text_by_dictionary(tmp_path):
    path = written_run(tmp_path / "run")
    group = pq.ParquetFile(str(path / "segments/000002.parquet")).metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "BYTE_STREAM_SPLIT" in columns["behavior_logprobs.list.element"].encodings
    assert "RLE_DICTIONARY" in columns["origin"].encodings
    assert columns["origin"].compression == "ZSTD"


def test_shards_keep_bounds_of_the_key_by_which_a_query_skips_files(tmp_path):
    path = written_run(tmp_path / "run")
    group = pq.ParquetFile(str(path / "segments/000002.parquet")).metadata.row_group(0)
    bounded = [c.path_in_schema for c in map(group.column, range(group.num_columns)) if c.is_stats_set]
    assert bounded == ["trajectory_id", "segment"]


def test_a_second_writer_is_refused_with_one_sentence(tmp_path):
    path = written_run(tmp_path / "run")
    with RunFolder.open(path, "write"):
        code = (
            "import sys; from pathlib import Path\n"
            "from rollwright.evidence import RunFolder, RunLockedError\n"
            "try: RunFolder.open(Path(sys.argv[1]), 'write')\n"
            "except RunLockedError as error: print(error)"
        )
        told = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=python_path()
        )
        assert told.stdout.count("\n") == 1, told.stderr
        assert f"is being written by process {os.getpid()}" in told.stdout
        assert "reading it by `rollwright query` works meanwhile" in told.stdout
        RunFolder.open(path).close()
    RunFolder.open(path, "write").close()


def test_two_folders_in_one_process_do_not_share_a_lock(tmp_path):
    path = written_run(tmp_path / "run")
    with RunFolder.open(path, "write"), pytest.raises(RunLockedError):
        RunFolder.open(path, "write")


def test_a_forked_worker_does_not_keep_the_lock_of_a_dead_run(tmp_path):
    path = written_run(tmp_path / "run")
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from rollwright.evidence import RunFolder\n"
        "folder = RunFolder.open(Path(sys.argv[1]), 'write')\n"
        "heard, told = os.pipe()\n"
        "if (child := os.fork()) == 0: os.write(told, b'.'); time.sleep(60)\n"
        "os.read(heard, 1); print(child, flush=True); os.kill(os.getpid(), 9)"
    )
    told = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True, env=python_path()
    )
    assert told.stdout is not None
    child = int(told.stdout.readline())
    try:
        told.wait()
        RunFolder.open(path, "write").close()
    finally:
        os.kill(child, signal.SIGKILL)
        told.stdout.close()


def test_a_reader_cannot_commit(tmp_path):
    folder = RunFolder.open(written_run(tmp_path / "run"))
    with pytest.raises(EvidenceError, match="open for reading"):
        folder.commit(trained_step(3), at=START)


def test_a_folder_with_a_run_or_with_foreign_files_is_not_overwritten(tmp_path):
    with pytest.raises(FolderExistsError, match="already holds a run"):
        RunFolder.create(written_run(tmp_path / "run"), manifest(), "")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("mine")
    with pytest.raises(FolderExistsError, match="thesis.txt"):
        RunFolder.create(tmp_path / "home", manifest(), "")
    with pytest.raises(FolderExistsError, match="is a file"):
        RunFolder.create(tmp_path / "home" / "thesis.txt", manifest(), "")


def test_what_a_killed_create_left_is_no_run_and_can_be_created_again(tmp_path):
    path = written_run(tmp_path / "run", steps=0)
    (path / "manifest.json").unlink()
    (path / "commits/000001-step.json").unlink()
    with pytest.raises(NotARunError, match="no manifest"):
        RunFolder.open(path)
    RunFolder.create(path, manifest(), "").close()


def test_a_path_that_is_no_run_is_named(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotARunError, match="is not a run folder"):
            RunFolder.open(path)


@pytest.mark.parametrize("place", ["manifest", "commit"])
def test_another_schema_is_refused_with_a_sentence(tmp_path, place):
    path = written_run(tmp_path / "run")
    file = path / "manifest.json" if place == "manifest" else path / "commits/000002-step.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema_version": 99}))
    with pytest.raises(SchemaVersionError, match=rf"schema 99, and this rollwright reads schema {SCHEMA_VERSION}"):
        RunFolder.open(path)


def test_an_edited_manifest_is_noticed(tmp_path):
    path = written_run(tmp_path / "run")
    file = path / "manifest.json"
    file.write_text(file.read_text().replace('"clip_low": 0.2', '"clip_low": 0.3'))
    with pytest.raises(EvidenceError, match="edited after the run began"):
        RunFolder.open(path, "write")


def test_an_unknown_field_in_a_manifest_is_named(tmp_path):
    path = written_run(tmp_path / "run")
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"lern_rate": 1}))
    with pytest.raises(EvidenceError, match="lern_rate"):
        RunFolder.open(path)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda b: b[:-100], "has .* bytes where"),
        (lambda b: b[:200] + bytes([b[200] ^ 1]) + b[201:], "was altered"),
        (lambda b: None, "is missing"),
    ],
)
def test_a_damaged_shard_is_named_before_it_is_read(tmp_path, damage, said):
    path = written_run(tmp_path / "run")
    shard = path / "segments/000002.parquet"
    content = damage(shard.read_bytes())
    shard.unlink()
    if content is not None:
        shard.write_bytes(content)
    for read in (lambda: query(path, "SELECT 1"), lambda: StoredRun(path).groups("train", 1)):
        with pytest.raises(ShardError, match=rf"segments/000002\.parquet {said}"):
            read()
    assert [f.place for f in check(path).findings] == ["segments/000002.parquet"]


@pytest.mark.parametrize("is_there", [True, False], ids=["truncated", "missing"])
def test_a_shard_that_is_not_whole_is_named_before_anything_is_written(tmp_path, is_there):
    path = written_run(tmp_path / "run")
    shard = path / "segments/000002.parquet"
    content = shard.read_bytes()
    shard.unlink()
    if is_there:
        shard.write_bytes(content[:-1])
    (path / "segments/000004.parquet").write_bytes(b"left by a kill")
    before = everything(path)
    with pytest.raises(ShardError, match=r"segments/000002\.parquet (has|is missing).*commits/abandoned and resume"):
        RunFolder.open(path, "write")
    assert everything(path) == before
    abandoned = path / "commits/abandoned"
    abandoned.mkdir()
    for name in ("000003-step.json", "000002-step.json"):
        (path / "commits" / name).rename(abandoned / name)
    with RunFolder.open(path, "write") as folder:
        assert folder.next_commit == 2


def test_seq_follows_group_slot_attempt_and_the_order_of_states_not_arrival(tmp_path):
    broken = scored_trajectory(
        group_id=0, slot=1, outcome="infrastructure", terminal_reason=TerminalReason.INFRASTRUCTURE_FAILURE
    )
    again = scored_trajectory(group_id=0, slot=1, attempt=1)
    first = scored_trajectory(group_id=0, slot=0)
    arrivals = [
        ledger_row(broken, "in_flight", step=1),
        ledger_row(first, "in_flight", step=1),
        ledger_row(again, "in_flight", step=1),
        ledger_row(broken, "failed", step=1),
        ledger_row(again, "ready", step=1),
        ledger_row(first, "ready", step=1),
        ledger_row(again, "trained", step=1),
        ledger_row(first, "trained", step=1),
    ]
    path = written_run(tmp_path / "run", steps=0)
    with RunFolder.open(path, "write") as folder:
        rows = dataclasses.replace(evaluation(1), ledger=arrivals, trajectories=[broken, again, first])
        folder.commit(rows, at=START)
        folder.commit(trained_step(5), at=START)
    found = query(path, "SELECT seq, slot, attempt, state FROM ledger ORDER BY seq").rows
    assert found[:8] == (
        (0, 0, 0, "in_flight"),
        (1, 0, 0, "ready"),
        (2, 0, 0, "trained"),
        (3, 1, 0, "in_flight"),
        (4, 1, 0, "failed"),
        (5, 1, 1, "in_flight"),
        (6, 1, 1, "ready"),
        (7, 1, 1, "trained"),
    )
    assert [row[0] for row in found] == list(range(len(found)))


def test_a_later_command_counts_its_groups_far_from_the_runs_own(tmp_path):
    path = written_run(tmp_path / "run")
    with RunFolder.open(path, "write") as folder:
        assert folder.first_group_id == 4 * GROUPS_PER_COMMIT
        folder.commit(evaluation(2, kind="evaluation", group_id=folder.first_group_id), at=START)
        assert folder.first_group_id == 5 * GROUPS_PER_COMMIT
        assert numbers(folder)[-1] == (4, "evaluation", 2)


def test_abandoned_steps_never_happened_and_their_numbers_are_used_again(tmp_path):
    path = written_run(tmp_path / "run", steps=4)
    before = query(path, "FROM trajectories SELECT trajectory_id ORDER BY ALL").rows
    with RunFolder.open(path, "write") as folder:
        gone = folder.abandon_after(3)
        assert [c.step for c in gone] == [3, 4]
        assert query(path, "SELECT max(step), max(seq) FROM ledger").rows == ((2, 23),)
        assert sorted(p.name for p in (path / "commits/abandoned").iterdir()) == [
            "000004-step.json",
            "000005-step.json",
        ]
        folder.commit(trained_step(3), at=START)
        folder.commit(trained_step(4), at=START)
        assert [c.number for c in folder.commits] == [1, 2, 3, 4, 5]
    assert query(path, "FROM trajectories SELECT trajectory_id ORDER BY ALL").rows == before
    assert check(path).findings == ()
    with RunFolder.open(path, "write") as folder:
        folder.abandon_after(3)
    assert len(list((path / "commits/abandoned").iterdir())) == 4


def test_what_a_command_said_of_a_step_that_stays_is_not_abandoned(tmp_path):
    path = written_run(tmp_path / "run", steps=2)
    with RunFolder.open(path, "write") as folder:
        folder.commit(evaluation(1, kind="evaluation", group_id=folder.first_group_id), at=START)
        folder.commit(evaluation(2, kind="evaluation", group_id=folder.first_group_id), at=START)
        gone = folder.abandon_after(2)
        assert [(c.number, c.step) for c in gone] == [(3, 2), (5, 2)]
        assert numbers(folder) == [(1, "step", 0), (2, "step", 1), (4, "evaluation", 1)]
        assert folder.commit(trained_step(2), at=START).number == 5
        assert len(StoredRun(path).groups("evaluation", 1)) == 1


def test_abandoning_after_a_commit_that_is_not_there_is_refused(tmp_path):
    with RunFolder.open(written_run(tmp_path / "run"), "write") as folder:
        with pytest.raises(EvidenceError, match="no commit 9; it has 1, 2, 3"):
            folder.abandon_after(9)
        assert len(folder.abandon_after(0)) == 3


def test_leftovers_of_a_kill_are_removed_on_opening_for_writing(tmp_path):
    path = written_run(tmp_path / "run")
    leftovers = [
        path / "segments/.000004.parquet.partial",
        path / "segments/000004.parquet",  # renamed, and killed before its commit
        path / "commits/.000004-step.json.partial",
        path / "blobs/.abc.partial",
    ]
    for leftover in leftovers:
        leftover.write_bytes(b"half")
    (path / "checkpoints/.step-000001.partial").mkdir()
    assert query(path, "SELECT count(*) FROM trajectories").rows == ((9,),)
    assert all(leftover.exists() for leftover in leftovers), "a reader removes nothing"
    with RunFolder.open(path, "write") as folder:
        folder.commit(trained_step(3), at=START)
    assert not any(leftover.exists() for leftover in leftovers if leftover.suffix != ".parquet")
    assert not (path / "checkpoints/.step-000001.partial").exists()
    assert check(path).findings == ()


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_missing_commit_is_named_and_its_shards_stay(tmp_path, mode):
    path = written_run(tmp_path / "run")
    (path / "commits/000002-step.json").unlink()
    (path / "segments/000004.parquet").write_bytes(b"left by a kill")
    before = everything(path)
    with pytest.raises(EvidenceError, match="commit 2 is missing; restore it from a copy of the run"):
        RunFolder.open(path, mode)
    assert everything(path) == before


def test_a_missing_commit_below_abandoned_ones_is_named(tmp_path):
    path = written_run(tmp_path / "run", steps=4)
    with RunFolder.open(path, "write") as folder:
        folder.abandon_after(3)
    (path / "commits/000003-step.json").unlink()
    with pytest.raises(EvidenceError, match="commit 3 is missing"):
        RunFolder.open(path, "write")


def test_cleaning_spares_every_shard_up_to_the_last_commit(tmp_path):
    """A commit file that was replaced by an older one of its number lists other shards; its own must stay."""
    path = written_run(tmp_path / "run")
    unlisted = path / "segments/000002-2.parquet"
    unlisted.write_bytes(b"rows")
    leftover = path / "segments/000004-2.parquet"
    leftover.write_bytes(b"rows")
    RunFolder.open(path, "write").close()
    assert unlisted.exists()
    assert not leftover.exists()


@contextmanager
def files_of_at_most(num_bytes: int):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def everything(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name != "lock"}


def test_a_full_disk_loses_nothing_and_the_commit_can_be_tried_again(tmp_path):
    path = written_run(tmp_path / "run")
    before = everything(path)
    with RunFolder.open(path, "write") as folder:
        with files_of_at_most(3_000), pytest.raises(DiskFullError, match=r"cannot write commit 4 .* needs .* are free"):
            folder.commit(trained_step(3), at=START)
        assert everything(path) == before
        assert folder.commit(trained_step(3), at=START).number == 4
    assert check(path).findings == ()


def test_a_full_disk_under_a_checkpoint_keeps_the_earlier_ones(tmp_path):
    path = written_run(tmp_path / "run")
    with RunFolder.open(path, "write") as folder:
        with folder.writing_checkpoint(folder.commits[1]) as place:
            (place / "model.safetensors").write_bytes(b"weights")
        with (
            files_of_at_most(1_000),
            pytest.raises(DiskFullError, match="checkpoint step-000002"),
            folder.writing_checkpoint(folder.commits[2]) as place,
        ):
            (place / "model.safetensors").write_bytes(b"weights" * 1000)
        chosen = folder.newest_checkpoint().chosen
    assert chosen is not None
    assert chosen.name == "step-000001"
    assert [p.name for p in (path / "checkpoints").iterdir()] == ["step-000001"]


def python_path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


WRITER = """
import sys
from pathlib import Path
from rollwright.evidence import RunFolder
from tests.evidence.runs import START, trained_step
with RunFolder.open(Path(sys.argv[1]), "write") as folder:
    for step in range(len(folder.commits), 200):
        commit = folder.commit(trained_step(step, groups=4, size=4), at=START)
        with folder.writing_checkpoint(commit) as place:
            (place / "model.safetensors").write_bytes(bytes(20_000))
        print(step, flush=True)
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_at_any_moment_leaves_whole_commits(tmp_path, seed):
    path = written_run(tmp_path / "run", steps=0)
    chance = random.Random(seed)
    done = 0
    for _ in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, env=python_path()
        )
        assert writer.stdout is not None
        for _ in range(chance.randint(1, 3)):
            done = int(writer.stdout.readline())
        time.sleep(chance.random() * 0.1)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        with RunFolder.open(path, "write") as folder:
            steps = [c.step for c in folder.commits]
            assert steps == list(range(len(steps)))
            assert steps[-1] >= done, "what was reported as committed is there"
            chosen = folder.newest_checkpoint().chosen
            assert chosen is not None
            assert chosen.step >= done
        assert check(path).findings == ()


def test_events_survive_a_torn_line(tmp_path):
    path = written_run(tmp_path / "run")
    first = Event(at=START, kind="resumed", text="The run went on from step 1.", step=1)
    second = Event(at=START + timedelta(seconds=1), kind="promise_ended", text="Another CPU.", fields={"cpu": "other"})
    with RunFolder.open(path, "write") as folder:
        folder.record_event(first)
    with (path / "events.jsonl").open("ab") as file:
        file.write(b'{"at": "2026')
    with RunFolder.open(path, "write") as folder:
        folder.record_event(second)
        assert folder.events() == (first, second)


def test_blobs_are_stored_once_and_compared_on_reading(tmp_path):
    path = written_run(tmp_path / "run")
    [sha256] = [p.name for p in (path / "blobs").iterdir()]
    folder = RunFolder.open(path)
    assert folder.blob(sha256) == b"1+1=2\n"
    (path / "blobs" / sha256).write_bytes(b"1+1=3\n")
    with pytest.raises(ShardError, match="altered"):
        folder.blob(sha256)
    assert [f.place for f in check(path).findings] == [f"blobs/{sha256}"]


def test_evidence_works_without_torch(tmp_path):
    path = written_run(tmp_path / "run")
    code = (
        "import sys; sys.modules['torch'] = None; from pathlib import Path\n"
        "from rollwright import evidence\n"
        "path = Path(sys.argv[1])\n"
        "print(evidence.check(path).is_sound, len(evidence.read_groups(path, 'train', 1)))"
    )
    told = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=python_path())
    assert told.stdout == "True 2\n", told.stderr
