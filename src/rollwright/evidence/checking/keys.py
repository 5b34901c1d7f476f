"""Keys, references, closed lists and numbers: what a row has to be, whatever it says."""

from collections.abc import Iterator

from rollwright.evidence.checking.findings import Finding
from rollwright.evidence.checking.loading import LoadedRun
from rollwright.evidence.checking.questions import questions
from rollwright.record import ORIGINS
from rollwright.record.tables import CONTRACT_TABLES, DOUBLE, FLOAT, TASKS, Column, ListOf, Numbers, StructOf, Table
from rollwright.record.trajectory import TerminalReason

__all__ = ["check_keys"]

_CLOSED: dict[tuple[str, str], tuple[str, ...]] = {
    ("trajectories", "purpose"): ("train", "evaluation", "demonstration", "audit"),
    ("trajectories", "terminal_reason"): tuple(str(reason) for reason in TerminalReason),
    ("trajectories", "lineage"): ("retry_of", "forked_from", "resumed_from", "replay_of"),
    ("trajectories", "failure_class"): ("task", "infrastructure", "grading", "abandoned"),
    ("segments", "origin"): ORIGINS,
    ("segments", "finish"): ("stop_token", "stop_string", "length", "swapped", "aborted", "tool_call"),
    ("tool_calls", "status"): ("ok", "tool_error", "invalid_call", "timeout", "limit", "refused"),
    ("tool_calls", "retention"): ("inline", "blob", "dropped"),
    ("verdicts", "scope"): ("trajectory", "group", "turn", "segment", "span"),
    ("verdicts", "status"): ("ok", "error"),
    ("ledger", "state"): ("in_flight", "ready", "trained", "filtered", "expired", "failed", "requeued"),
}
_ABOVE_THE_ROW = ("segments", "tensors", "tool_calls", "verdicts", "receipts")


def check_keys(run: LoadedRun) -> Iterator[Finding]:
    """Every table's keys once, references to rows that are there, words of closed lists, numbers that are numbers."""
    for table in CONTRACT_TABLES:
        yield from _twice(run, table)
        yield from _numbers(run, table)
        yield from _nulls(run, table)
    yield from _twice_tasks(run)
    for (table_name, column), allowed in _CLOSED.items():
        yield from _closed(run, table_name, column, allowed)
    if "trajectories" not in run.missing:
        for name in _ABOVE_THE_ROW:
            yield from _orphans(run, name)
    for question in questions("references"):
        yield from run.found("keys", question)


def _twice(run: LoadedRun, table: Table) -> Iterator[Finding]:
    key = ", ".join(table.key)
    sql = f"SELECT concat_ws(' ', {key}), count(*) FROM {table.name} GROUP BY {key} HAVING count(*) > 1"
    for place, count in run.rows(sql):
        yield Finding(
            place=f"{table.name} {place}", text=f"the key stands {count} times", expected="once", concern="keys"
        )


def _twice_tasks(run: LoadedRun) -> list[Finding]:
    return run.found(
        "keys",
        f"""SELECT concat('tasks ', task_id), 'two rows of this task differ in source, revision, split or payload',
        'one content for one id' FROM stored_{TASKS.name} GROUP BY task_id
        HAVING count(DISTINCT (source, revision, split, payload)) > 1""",
    )


def _closed(run: LoadedRun, table: str, column: str, allowed: tuple[str, ...]) -> list[Finding]:
    listed = ", ".join(f"'{word}'" for word in allowed)
    key = ", ".join(next(t.key for t in CONTRACT_TABLES if t.name == table))
    return run.found(
        "keys",
        f"""SELECT concat_ws(' ', '{table}', {key}), '{column} is ' || {column}, '{", ".join(allowed)}'
        FROM {table} WHERE {column} NOT IN ({listed})""",
    )


def _orphans(run: LoadedRun, table: str) -> list[Finding]:
    return run.found(
        "keys",
        f"""SELECT concat('{table} ', trajectory_id), 'it belongs to no trajectory', 'a row of trajectories'
        FROM {table} WHERE trajectory_id NOT IN (SELECT trajectory_id FROM trajectories) GROUP BY trajectory_id""",
    )


def _nulls(run: LoadedRun, table: Table) -> Iterator[Finding]:
    """Values that are missing where each row has one."""
    key = ", ".join(f"coalesce({name}::TEXT, '?')" for name in table.key)
    due = [column.name for column in table.columns if not column.is_nullable]
    tests = ", ".join(f"CASE WHEN {name} IS NULL THEN '{name}' END" for name in due)
    yield from run.found(
        "keys",
        f"""SELECT concat_ws(' ', '{table.name}', {key}), concat(concat_ws(', ', {tests}), ' is missing'), 'a value'
        FROM {table.name} WHERE {" OR ".join(f"{name} IS NULL" for name in due)}""",
    )


def _numbers(run: LoadedRun, table: Table) -> Iterator[Finding]:
    """Numbers that are none where a column may not hold them."""
    key = ", ".join(table.key)
    for column in table.columns:
        if column.numbers is Numbers.ANY:
            continue
        test = "isnan(x)" if column.numbers is Numbers.NOT_NAN else "NOT isfinite(x)"
        for value in _float_places(column):
            yield from run.found(
                "keys",
                f"""SELECT concat_ws(' ', '{table.name}', {key}), concat('{column.name} holds ', any_value(x)),
                'a finite number' FROM (SELECT {key}, {value} AS x FROM {table.name}) WHERE {test} GROUP BY {key}""",
            )


def _float_places(column: Column) -> list[str]:
    match column.type:
        case ListOf(item=StructOf(fields=fields)):
            floats = [name for name, of in fields if of in (FLOAT, DOUBLE)]
            return [f"unnest(list_transform({column.name}, lambda s: s.{name}))" for name in floats]
        case ListOf(item=item) if item in (FLOAT, DOUBLE):
            return [f"unnest({column.name})"]
        case StructOf(fields=fields):
            lists = [name for name, of in fields if isinstance(of, ListOf) and of.item in (FLOAT, DOUBLE)]
            return [f"unnest({column.name}.{name})" for name in lists]
        case _:
            return [column.name] if column.type in (FLOAT, DOUBLE) else []
