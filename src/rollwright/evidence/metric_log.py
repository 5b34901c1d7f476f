"""`metrics.jsonl`: a line a step and an evaluation, with plain names, for whoever follows a run with a text tool.

It says nothing that the committed tables do not say, and is no part of the content hash. A line that a kill tore is cut
off, and lines of steps that never happened are dropped, when the run goes on.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from rollwright.evidence.durable import disk_errors, sync_folders, write_file

__all__ = ["MetricLine", "append_line", "keep_lines", "read_lines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLine:
    """One line."""

    kind: Literal["step", "evaluation"]
    step: int
    stage: str
    at: datetime
    values: Mapping[str, float | None]
    """Name, with its labels behind it, to value; null where it is undefined."""


_ADAPTER = TypeAdapter(MetricLine)


def append_line(path: Path, line: MetricLine) -> None:
    """Append in one write.

    Raises:
        DiskFullError: when there is no room.
    """
    text = _text(line)
    with disk_errors("the log of metrics", path.parent, len(text)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, text)
        finally:
            os.close(descriptor)


def read_lines(path: Path) -> tuple[MetricLine, ...]:
    """All whole lines, in order."""
    if not path.exists():
        return ()
    found: list[MetricLine] = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(_ADAPTER.validate_json(line))
        except ValidationError:
            continue
    return tuple(found)


def keep_lines(path: Path, lines: Sequence[MetricLine]) -> None:
    """Let the log hold these lines and no other; a kill leaves it as it was or as it is to be."""
    content = b"".join(map(_text, lines))
    with disk_errors("the log of metrics", path.parent, len(content)):
        write_file(path, content)
        sync_folders([path.parent])


def _text(line: MetricLine) -> bytes:
    # Not through the adapter: it writes what is not finite as null, and here null means undefined alone.
    fields = {
        "kind": line.kind,
        "step": line.step,
        "stage": line.stage,
        "at": line.at.isoformat(),
        "values": {name: _plain(value) for name, value in line.values.items()},
    }
    return json.dumps(fields, allow_nan=False).encode() + b"\n"


def _plain(value: float | None) -> float | None:
    return None if value is None or value != value or value in (float("inf"), float("-inf")) else value
