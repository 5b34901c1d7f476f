"""`gates.json`: what came of the gates and alarms of a run, step by step; written whole, by one writer.

A verdict belongs to its step: resuming from before that step takes it out again, for what it was about never happened.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rollwright.evidence.durable import disk_errors, remove_partials, sync_folders, write_file
from rollwright.evidence.errors import EvidenceError
from rollwright.evidence.locking import writer_of
from rollwright.record.gates import GateVerdict

__all__ = ["GateAction", "GatePurpose", "GateRecord", "drop_gates_after", "read_gates", "record_gates"]

GatePurpose = Literal["run", "alarm", "promotion", "ladder"]
"""Why it was judged: as part of the run, as a metric was made, before a checkpoint left, or by a rung of the ladder."""

GateAction = Literal["none", "warn", "pause"]

_NAME = "gates.json"
_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRecord:
    """One verdict, with what it was about."""

    at: datetime
    step: int
    """After which it was judged."""
    purpose: GatePurpose
    what: str
    """What was measured, as a person says it."""
    verdict: GateVerdict
    label: str
    """Evidence label of the limit: D, C, I or U."""
    limit_source: str
    """Where the limit comes from."""
    first_step: int | None = None
    """Of the steps that an alarm rose over; the last of them is `step`."""
    action: GateAction = "none"
    """What an alarm did to the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    __pydantic_config__ = ConfigDict(extra="forbid", ser_json_inf_nan="strings")

    schema_version: int
    gates: tuple[GateRecord, ...]


_ADAPTER = TypeAdapter(_Document)


def read_gates(run: Path) -> tuple[GateRecord, ...]:
    """Every verdict of a run, in the order judged; empty where none was.

    Raises:
        EvidenceError: when the file is not one that rollwright wrote, or is of another schema.
    """
    path = run / _NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return ()
    try:
        version: object = json.loads(content)["schema_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, str(error)) from error
    if version != _SCHEMA_VERSION:
        raise _unreadable(path, f"it is of schema {version}, and this rollwright reads {_SCHEMA_VERSION}")
    try:
        return _ADAPTER.validate_json(content).gates
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise _unreadable(path, f"{place}: {first['msg']}") from error


def record_gates(run: Path, records: Sequence[GateRecord]) -> None:
    """Add verdicts behind those that are there; the caller holds the run for writing.

    A verdict on the same gate for the same step and purpose is replaced: judging again is no second verdict.
    """
    if records:
        anew = {_key(record) for record in records}
        _write(run, [*(one for one in read_gates(run) if _key(one) not in anew), *records])


def drop_gates_after(run: Path, step: int) -> tuple[GateRecord, ...]:
    """Take out what was judged of steps that a resumed run does again; returns it."""
    found = read_gates(run)
    gone = tuple(record for record in found if record.step > step)
    if gone:
        _write(run, [record for record in found if record.step <= step])
    return gone


def _key(record: GateRecord) -> tuple[str, int, str]:
    return record.purpose, record.step, record.verdict.gate


def _write(run: Path, records: Sequence[GateRecord]) -> None:
    if writer_of(run) is None:
        raise EvidenceError(f'{run} is open for reading; verdicts are added through RunFolder.open(path, "write").')
    document = _Document(schema_version=_SCHEMA_VERSION, gates=tuple(records))
    content = _ADAPTER.dump_json(document, indent=1) + b"\n"
    with disk_errors(_NAME, run, len(content)):
        remove_partials([run])
        write_file(run / _NAME, content)
        sync_folders([run])


def _unreadable(path: Path, why: str) -> EvidenceError:
    return EvidenceError(
        f"{path} cannot be read: {why}. It is written by rollwright and never edited; restore it from a copy, or "
        "delete it: the verdicts are judged again from the tables."
    )
