"""A run looked at again and again: what is read once, what is noticed, and what its connection cannot reach."""

import shutil
import threading

import duckdb
import pytest

from rollwright.evidence import EvidenceError, NotARunError, RunFolder, SchemaVersionError
from rollwright.evidence.following import FollowedRun
from tests.evidence.runs import START, evaluation, trained_step, written_run


@pytest.fixture
def run(tmp_path):
    return written_run(tmp_path / "a 'run'", steps=2)


def test_a_look_has_the_commits_and_counts_rows_without_reading_them(run):
    look = FollowedRun(run).look()
    assert [c.number for c in look.commits] == [1, 2, 3]
    assert (look.last_step, look.count("trajectories"), look.count("segments")) == (2, 9, 36)
    assert [c.number for c in look.of_step(0)] == [1]
    assert [c.number for c in look.holding("receipts")] == [2, 3]


def test_a_question_reads_the_chosen_commits_and_says_which_shard_a_row_stands_in(run):
    look = FollowedRun(run).look()
    assert look.ask("SELECT count(*) AS n FROM {trajectories}") == [{"n": 9}]
    assert look.ask("SELECT count(*) AS n FROM {trajectories}", commits=look.of_step(2)) == [{"n": 4}]
    assert look.ask("SELECT count(*) AS n FROM {tensors}") == [{"n": 0}]
    [row] = look.ask("SELECT DISTINCT filename FROM {ledger}", commits=look.of_step(1))
    assert row["filename"].endswith("ledger/000002.parquet")
    expanded = look.ask("SELECT expand(advantage) AS a FROM {receipts} WHERE step = $step LIMIT 1", {"step": 1})
    assert len(expanded[0]["a"]) in (2, 3)


def test_a_value_is_only_ever_a_value(run):
    look = FollowedRun(run).look()
    for odd in ("' OR 1=1 --", "{segments}", "$step", "x'); DROP TABLE t; --"):
        assert look.ask("SELECT count(*) AS n FROM {trajectories} WHERE task_source = $odd", {"odd": odd}) == [{"n": 0}]


def test_nothing_is_read_again_while_nothing_was_committed_and_old_commits_never(run):
    followed = FollowedRun(run)
    first = followed.look()
    assert followed.look() is first
    with RunFolder.open(run, "write") as folder:
        folder.commit(trained_step(3), at=START)
    (run / "commits" / "000002-step.json").write_bytes(b"not read again")
    second = followed.look()
    assert [c.number for c in second.commits] == [1, 2, 3, 4]
    assert second.revision != first.revision
    with pytest.raises(EvidenceError, match="is not a commit"):
        FollowedRun(run).look()


def test_a_step_done_again_under_the_number_of_an_abandoned_one_is_noticed(run):
    followed = FollowedRun(run)
    before = followed.look()
    with RunFolder.open(run, "write") as folder:
        folder.abandon_after(2)
        folder.commit(trained_step(2, size=4), at=START)
    after = followed.look()
    assert [c.number for c in after.commits] == [1, 2, 3]
    assert (before.count("trajectories"), after.count("trajectories")) == (9, 13)
    assert after.revision != before.revision
    assert after.num_abandoned == 1
    assert before.ask("SELECT count(*) AS n FROM {trajectories}") == [{"n": 9}]


def test_a_missing_commit_is_named(run):
    (run / "commits" / "000002-step.json").unlink()
    assert FollowedRun(run).look().missing == (2,)


def test_a_deleted_run_and_one_of_another_schema_are_refused_and_a_run_that_comes_back_is_read(run, tmp_path):
    followed = FollowedRun(run)
    followed.look()
    shutil.move(run, tmp_path / "aside")
    with pytest.raises(NotARunError, match="moved or deleted"):
        followed.look()
    shutil.move(tmp_path / "aside", run)
    assert followed.look().last_step == 2
    commit = run / "commits" / "000003-step.json"
    commit.write_text(commit.read_text().replace('"schema_version": ', '"schema_version": 9'))
    with pytest.raises(SchemaVersionError, match="schema 9"):
        FollowedRun(run).look()


def test_its_connection_reaches_the_tables_of_its_run_and_nothing_else(run, tmp_path):
    other = written_run(tmp_path / "other", steps=1)
    (tmp_path / "secret.txt").write_text("secret")
    connection = FollowedRun(run).look().connection
    for statement in (
        f"SELECT * FROM read_text('{tmp_path}/secret.txt')",
        "SELECT * FROM read_text('{}')".format(str(run / "manifest.json").replace("'", "''")),
        "SELECT * FROM read_text('{}/segments/../manifest.json')".format(str(run).replace("'", "''")),
        f"SELECT * FROM read_parquet('{other}/segments/000002.parquet')",
        "SELECT * FROM read_csv('https://127.0.0.1:1/x.csv')",
        f"ATTACH '{tmp_path}/x.db'",
        f"COPY (SELECT 1) TO '{tmp_path}/x.csv'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "RESET lock_configuration",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(statement).fetchall()


@pytest.mark.parametrize("statement", ["CREATE TABLE t (x INT)", "COPY (SELECT 1) TO 'x.csv'", "SET threads = 1"])
def test_a_look_asks_and_never_writes(run, statement):
    with pytest.raises(AssertionError, match="only reads"):
        FollowedRun(run).look().ask(statement)


def test_many_threads_look_and_ask_while_a_run_is_written_and_abandoned(run):
    followed, problems, is_over = FollowedRun(run), [], threading.Event()

    def visit():
        while not is_over.is_set():
            try:
                look = followed.look()
                [row] = look.ask("SELECT count(*) AS n FROM {trajectories}")
                assert row["n"] == look.count("trajectories")
            except Exception as error:  # noqa: BLE001 - whatever a visitor met is the finding
                problems.append(error)
                return

    visitors = [threading.Thread(target=visit) for _ in range(3)]
    for visitor in visitors:
        visitor.start()
    with RunFolder.open(run, "write") as folder:
        for step in range(3, 7):
            folder.commit(trained_step(step, groups=1), at=START)
            folder.commit(evaluation(step, group_id=8_000_000 + step), at=START)
        folder.abandon_after(4)
        folder.commit(trained_step(4), at=START)
    is_over.set()
    for visitor in visitors:
        visitor.join()
    assert problems == []
    assert followed.look().last_step == 4
