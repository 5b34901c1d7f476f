"""The state that an episode leaves equals the wanted one, whatever the path: 1 only on equality."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from rollwright.record import NamedValue, Submission, digest
from rollwright.tasks import Json, Payload, TaskError, apply_changes, difference, read_changes, read_json, read_tables
from rollwright.tasks.tables import Tables
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import FunctionVerifier, Grade, gold_payload

__all__ = ["FINAL_STATE", "LeftState", "final_state_verifier", "left_state"]

FINAL_STATE = "final_state.json"
"""{"tables": {name: {columns, rows}}, "writes": [[table, id], …]}"""
NO_STATE = "no_final_state"
_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftState:
    """What an episode left."""

    tables: Tables
    writes: frozenset[str]
    """`table` and `table/id` of all rows that were written, undone or not."""


def final_state_verifier(*, name: str = "final_state") -> FunctionVerifier:
    """1 where the final state is the wanted one and nothing forbidden was written on the way, else 0.

    The task's `info` says `initial` (tables), `changes` (what is to become of them) and may say `untouched` (rows
    `table/id` or tables that must not be written, not even for a while). The wanted state is the initial one with the
    changes applied, so every other change is a side effect and pays nothing.
    """

    def grade(submission: Submission) -> Grade:
        payload = gold_payload(submission)
        initial, wanted = _wanted(payload)
        left = left_state(submission)
        if left is None:
            return Grade(value=0.0, finding=NO_STATE, evidence=f"there is no artifact {FINAL_STATE} that can be read")
        lines = difference(wanted, left.tables, initial=initial)
        forbidden = sorted(left.writes & _untouched(payload))
        lines = (*lines, *(f"{what}: written, though it must not be touched" for what in forbidden))
        return Grade(
            value=float(not lines),
            evidence="; ".join(lines) or "as wanted",
            components=(NamedValue(name="differences", value=float(len(lines))),),
        )

    return FunctionVerifier(name=name, revision=digest([_REVISION, name])[:16], grade=grade)


def left_state(submission: Submission) -> LeftState | None:
    """The final state of an episode; None where it left none that can be read."""
    raw = submission.artifacts.get(FINAL_STATE)
    if raw is None:
        return None
    try:
        loaded = read_json(raw.decode())
        if not isinstance(loaded, Mapping):
            return None
        rows = cast("Sequence[Sequence[Json]]", loaded.get("writes", ()))
        writes = {f"{table}/{key}" for table, key in rows} | {str(table) for table, _ in rows}
        return LeftState(tables=read_tables(loaded.get("tables")), writes=frozenset(writes))
    except (ValueError, TypeError, RecursionError):
        return None


def _wanted(payload: Payload) -> tuple[Tables, Tables]:
    """The initial and the wanted state.

    Raises:
        GoldError: where the task says neither, or changes that cannot be made.
    """
    try:
        initial = read_tables(payload.info.get("initial"))
        return initial, apply_changes(initial, read_changes(payload.info.get("changes")))
    except TaskError as error:
        raise GoldError(f"info.initial and info.changes: {error}") from error


def _untouched(payload: Payload) -> frozenset[str]:
    value = payload.info.get("untouched", ())
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise GoldError(f"info.untouched must be a list of `table/id` or `table`; it is {json.dumps(value)[:80]}")
    return frozenset(str(one) for one in value)
