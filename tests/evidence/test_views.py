"""Questions in SQL: the contract's names, the survey's derived fields, committed rows only."""

import dataclasses
import os
import re
import signal
import threading
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from rollwright.evidence import QUERIES, CommitRows, QueryError, RunFolder, check, connect, query, query_text
from rollwright.record import LedgerRow, TerminalReason
from rollwright.record.tables import CONTRACT_TABLES, sql_type
from tests.evidence.runs import (
    START,
    ledger_row,
    manifest,
    receipts,
    scored_trajectory,
    task,
    trained_step,
    written_run,
)

CONTRACTS = Path(__file__).parents[1] / "data/contracts"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return written_run(tmp_path_factory.mktemp("views") / "run")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> tuple[Path, dict[str, bytes]]:
    """A sound run that statements of all kinds are tried on, and every byte of it."""
    path = written_run(tmp_path_factory.mktemp("guarded") / "run")
    assert check(path).is_sound
    return path, contents(path)


@pytest.fixture(scope="module")
def with_an_uncommitted_file(tmp_path_factory) -> Path:
    path = written_run(tmp_path_factory.mktemp("uncommitted") / "run")
    (path / "metrics/000004.parquet").write_bytes((path / "metrics/000003.parquet").read_bytes())
    return path


def contents(path: Path) -> dict[str, bytes]:
    """Of every file, by name; a folder has none."""
    return {str(p.relative_to(path)): b"" if p.is_dir() else p.read_bytes() for p in path.rglob("*")}


@pytest.mark.parametrize("steps", [-1, 2], ids=["empty", "written"])
def test_views_have_the_contracts_columns_and_types(tmp_path, steps):
    if steps < 0:
        RunFolder.create(tmp_path / "run", manifest(), "").close()
    else:
        written_run(tmp_path / "run", steps=steps)
    with connect(tmp_path / "run") as connection:
        for table in CONTRACT_TABLES:
            found = connection.execute(f"DESCRIBE {table.name}").fetchall()
            types = {row[0]: row[1] for row in found}
            plain = duckdb.connect()
            plain.execute(f"CREATE TABLE t ({', '.join(f'{c.name} {sql_type(c.type)}' for c in table.columns)})")
            due = {row[0]: row[1] for row in plain.execute("DESCRIBE t").fetchall()}
            assert {name: types[name] for name in due} == due
            assert types["run_id"] == "VARCHAR"


def test_only_committed_rows_are_seen(tmp_path):
    path = written_run(tmp_path / "run")
    shard = path / "metrics/000003.parquet"
    (path / "metrics/000004.parquet").write_bytes(shard.read_bytes())
    assert query(path, "SELECT count(*) FROM metrics").rows == ((6,),)


def test_a_reader_sees_what_a_writer_commits(tmp_path):
    path = written_run(tmp_path / "run")
    with RunFolder.open(path, "write") as folder:
        reader = RunFolder.open(path)
        folder.commit(trained_step(3), at=START)
        assert len(reader.commits) == 3
        reader.refresh()
        assert len(reader.commits) == 4
        assert query(path, "SELECT max(step) FROM receipts").rows == ((3,),)


def test_the_mask_follows_provenance_not_the_role(run):
    found = query(
        run,
        """SELECT origin, any_value(action_loss_mask), any_value(tool_result_token_mask) FROM segments
           WHERE trajectory_id = 't000000-00-0' AND segment > 0 GROUP BY origin ORDER BY origin""",
    ).rows
    assert found[0] in (("policy", [True] * 3, [False] * 3), ("policy", [True] * 2, [False] * 2))
    assert found[1] == ("tool", [False, False], [True, True])


def test_a_token_sees_exactly_what_was_before_it(run):
    found = query(
        run, "SELECT segment, input_token_ids FROM contexts WHERE trajectory_id = 't000000-00-0' ORDER BY segment"
    ).rows
    assert found == ((0, []), (1, [1, 2, 3, 4]), (2, [1, 2, 3, 4, 5, 6, 7]), (3, [1, 2, 3, 4, 5, 6, 7, 8, 9]))


def test_span_ids_link_segments_to_their_parents(run):
    found = query(
        run, "SELECT span_id, parent_span_id FROM segments WHERE trajectory_id = 't000000-00-0' ORDER BY segment"
    ).rows
    assert found[:2] == (("t000000-00-0/0", None), ("t000000-00-0/1", "t000000-00-0/0"))


@pytest.mark.parametrize(
    ("reason", "derived"),
    [
        (TerminalReason.MODEL_END, (False, False, False)),
        (TerminalReason.TOKEN_LIMIT, (True, False, False)),
        (TerminalReason.TURN_LIMIT, (True, False, False)),
        (TerminalReason.CONTEXT_LIMIT, (True, False, False)),
        (TerminalReason.WALL_CLOCK_LIMIT, (True, True, False)),
        (TerminalReason.INFRASTRUCTURE_FAILURE, (False, False, True)),
        (TerminalReason.SAFETY_STOP, (False, False, False)),
    ],
)
def test_derived_endings(tmp_path, reason, derived):
    path = written_run(tmp_path / "run", steps=0)
    with RunFolder.open(path, "write") as folder:
        ended = scored_trajectory(group_id=7, slot=0, terminal_reason=reason)
        folder.commit(CommitRows(kind="step", step=1, trajectories=[ended]), at=START)
    sql = "SELECT truncated, timeout, infrastructure_failure FROM trajectories WHERE group_id = 7"
    assert query(path, sql).rows == (derived,)
    assert reason.is_truncated == derived[0]


def test_the_proximal_version_is_that_before_the_step_and_absent_in_bypass(tmp_path):
    path = written_run(tmp_path / "run", steps=1)
    with RunFolder.open(path, "write") as folder:
        rows = trained_step(2)
        bypass = [dataclasses.replace(r, proximal_logprobs=None) for r in rows.receipts]
        folder.commit(dataclasses.replace(rows, receipts=bypass), at=START)
    sql = "SELECT DISTINCT step, proximal_policy_version FROM receipts ORDER BY step"
    assert query(path, sql).rows == ((1, 0), (2, None))


def test_eligible_is_the_manifests_list(run):
    assert query(run, "FROM eligible ORDER BY ALL").rows == (
        ("policy", "nll", "demonstration", None),
        ("policy", "policy_gradient", "policy", "policy"),
    )


def test_the_task_itself_is_there_once(run):
    found = query(run, "SELECT task_id, payload FROM tasks WHERE task_id = $task_id", {"task_id": task(1).task_id}).rows
    assert found == ((task(1).task_id, task(1).payload),)


def words(sql: str) -> str:
    return re.sub(r"\s+", " ", sql).strip().rstrip(";")


def test_the_shipped_questions_are_the_contracts():
    contract = {
        name: words((CONTRACTS / f"{name}.sql").read_text(encoding="utf-8")) for name in ("moved", "audit", "task")
    }
    assert words(query_text("moved")).replace("$step", "40") == contract["moved"]
    assert words(query_text("task")).replace("$task_id", "'arithmetic/00000000000000aa'") == contract["task"]
    assert words(query_text("audit")) == contract["audit"]


def test_the_macro_and_the_slots_are_the_contracts(run):
    macros = (CONTRACTS / "macros.sql").read_text(encoding="utf-8")
    with connect(run) as connection:
        ours = connection.execute("FROM slots ORDER BY seq").fetchall()
        structs = "SELECT expand(token_weight), expand(flags), expand(correction) FROM receipts"
        expanded = connection.execute(structs).fetchall()
        connection.execute("DROP VIEW slots; DROP MACRO expand;")
        connection.execute(macros)
        assert connection.execute("FROM slots ORDER BY seq").fetchall() == ours
        assert connection.execute(structs).fetchall() == expanded


def test_an_unknown_question_is_answered_with_those_there_are():
    with pytest.raises(KeyError, match="audit_sums"):
        query_text("why")
    assert all(query_text(name).strip() for name in QUERIES)


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1 AS a) TO '{shard}' (USE_TMP_FILE false)",
        "COPY (PIVOT trajectories ON origin USING count(*)) TO '{shard}' (USE_TMP_FILE false)",
        "EXPLAIN ANALYZE COPY (SELECT 1 AS a) TO '{shard}' (USE_TMP_FILE false)",
        "EXPLAIN ANALYZE COPY (PIVOT slots ON state USING count(*)) TO '{shard}' (USE_TMP_FILE false)",
        "PREPARE p AS COPY (SELECT 1 AS a) TO '{shard}' (USE_TMP_FILE false)",
        "COPY (SELECT 1 AS a) TO '{run}/new.parquet'",
        "EXPORT DATABASE '{run}/export'",
        "ATTACH '{shard}' AS other",
        "ATTACH '{run}/new.db' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "DROP VIEW trajectories",
    ],
)
def test_a_query_cannot_change_anything(guarded, sql):
    path, before = guarded
    shard = path / "metrics/000003.parquet"
    with pytest.raises(QueryError, match=r"only reads, and this is a statement of kind [A-Z]+; begin with SELECT"):
        query(path, sql.format(shard=shard, run=path))
    assert contents(path) == before


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_text('{run}/manifest.json')",
        "FROM glob('{run}/*')",
        "FROM '{run}/metrics/000004.parquet'",
        "COPY (SELECT 1) TO '{run}/new.csv'",
        "ATTACH '{run}/new.db' AS other",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "RESET allowed_paths",
    ],
)
def test_a_connection_reaches_the_committed_files_alone(with_an_uncommitted_file, sql):
    path = with_an_uncommitted_file
    with connect(path) as connection:
        with pytest.raises(duckdb.Error, match=r"file system operations are disabled|configuration has been locked"):
            connection.execute(sql.format(run=path))
        assert connection.execute("SELECT count(*) FROM metrics").fetchall() == [(6,)]


@pytest.mark.parametrize("sql", ["", ";", " ;; ", "-- nothing"])
def test_an_empty_query_is_answered_with_an_example(run, sql):
    with pytest.raises(QueryError, match="the query is empty; ask something"):
        query(run, sql)


def test_two_statements_are_refused(run):
    with pytest.raises(QueryError, match="has 2 statements"):
        query(run, "SELECT 1; DROP VIEW slots")


@pytest.mark.parametrize(
    "sql",
    [
        "DESCRIBE trajectories",
        "SHOW TABLES",
        "SUMMARIZE metrics",
        "FROM slots;",
        "WITH known AS (FROM slots) SELECT count(*) FROM known -- all of them",
        "PIVOT slots ON state USING count(*)",
    ],
)
def test_every_form_of_question_is_answered(run, sql):
    assert query(run, sql).rows


def test_a_variable_of_the_program_is_no_table(run):
    answer = query(run, "SELECT 1").rows
    assert answer
    with pytest.raises(duckdb.CatalogException):
        query(run, "FROM parameters")


def test_a_stopped_query_ends_as_any_stopped_command(run):
    sql = "SELECT count(*) FROM range(200000) a, range(200000) b WHERE hash(a.range, b.range) = 7"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            query(run, sql)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_which_episodes_moved_a_step_most_and_why(tmp_path):
    path = written_run(tmp_path / "run", steps=1)
    with RunFolder.open(path, "write") as folder:
        rows = trained_step(2)
        heavy, *rest = rows.receipts
        folder.commit(dataclasses.replace(rows, receipts=[dataclasses.replace(heavy, influence=3.0), *rest]), at=START)
    found = query(path, query_text("moved"), {"step": 2})
    assert found.columns == (
        *("trajectory_id", "task_id", "terminal_reason", "reward", "group_mean"),
        *("moved", "share", "lag", "share_cut", "verdicts"),
    )
    top = dict(zip(found.columns, found.rows[0], strict=True))
    # Each token's influence is |advantage 1/2| / 20 tokens; the first segment of three tokens was set to 3.
    assert top["moved"] == pytest.approx(3.0 + 2 * 0.5 / 20)
    assert top["share"] == pytest.approx(3.05 / (3.05 + 3 * 5 * 0.5 / 20))
    assert (top["trajectory_id"], top["reward"], top["group_mean"]) == ("t000002-00-0", 1.0, 0.5)
    assert (top["lag"], top["share_cut"], top["verdicts"]) == (0, 0.0, ["numeric=1.0"])
    assert len(found.rows) == 4


def test_what_became_of_a_task_through_retry_and_requeue(tmp_path):
    path = written_run(tmp_path / "run", steps=0)
    broken = scored_trajectory(
        group_id=0, slot=0, outcome="infrastructure", terminal_reason=TerminalReason.INFRASTRUCTURE_FAILURE
    )
    again = scored_trajectory(group_id=0, slot=0, attempt=1)
    late = scored_trajectory(group_id=0, slot=1)
    requeued = dataclasses.replace(ledger_row(late, "requeued", step=1, rule="resume"), successor=4)

    def rows_of(*rows: LedgerRow) -> list[LedgerRow]:
        return [dataclasses.replace(r, recorded_at=START + timedelta(seconds=i)) for i, r in enumerate(rows)]

    with RunFolder.open(path, "write") as folder:
        folder.commit(
            CommitRows(
                kind="step",
                step=1,
                trajectories=[broken, again, late],
                receipts=receipts(again, step=1, weight=0.2),
                ledger=rows_of(
                    ledger_row(broken, "in_flight", step=1),
                    ledger_row(broken, "failed", step=1),
                    ledger_row(again, "in_flight", step=1),
                    ledger_row(again, "ready", step=1),
                    ledger_row(again, "trained", step=1),
                    ledger_row(late, "in_flight", step=1),
                    requeued,
                ),
            ),
            at=START,
        )
    found = query(path, query_text("task"), {"task_id": task(0).task_id})
    first, second = (dict(zip(found.columns, row, strict=True)) for row in found.rows)
    assert (first["attempt"], first["state"], first["updates"], first["reward"]) == (1, "trained", 1, 1.0)
    assert first["influence"] == pytest.approx(0.5 * 0.2 * 5)
    assert (second["state"], second["rule"], second["successor"], second["updates"]) == ("requeued", "resume", 4, None)
    assert query(path, query_text("balance")).rows == (("requeued", 1, 1, 1), ("trained", 1, 1, 1))
