"""`events.jsonl`: what happened beside the numbers (a broken promise, a lost engine, a resume), one object a line."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

__all__ = ["Event", "append_event", "read_events", "seal_events"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One happening; not part of the content hash."""

    at: datetime
    kind: str
    """`promise_ended`, `resumed`, `engine_lost`, …"""
    text: str
    """A sentence for a person."""
    step: int | None = None
    fields: Mapping[str, str] = field(default_factory=lambda: {})


_ADAPTER = TypeAdapter(Event)


def append_event(path: Path, event: Event) -> None:
    """Append one line in one write, and sync it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, _ADAPTER.dump_json(event) + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_events(path: Path) -> tuple[Event, ...]:
    """All whole lines; what a kill tore is left out."""
    if not path.exists():
        return ()
    found: list[Event] = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(_ADAPTER.validate_json(line))
        except ValidationError:
            continue
    return tuple(found)


def seal_events(path: Path) -> None:
    """End a line that a kill tore, so that the next event starts its own."""
    if path.exists():
        content = path.read_bytes()
        if content and not content.endswith(b"\n"):
            with path.open("ab") as file:
                file.write(b"\n")
