"""What a page that is open asks every few seconds: whether anything that it shows is another by now."""

from typing import Final

from rollwright.evidence import writer_of
from rollwright.evidence.following import Look

__all__ = ["state_of"]

_BESIDE: Final = ("gates.json", "events.jsonl")
"""Files that change without a commit."""


def state_of(look: Look) -> str:
    """Another text after a commit, a verdict, an event, and when somebody begins or ends writing the run."""
    times: list[str] = []
    for name in _BESIDE:
        try:
            times.append(f"{(look.path / name).stat().st_mtime_ns:x}")
        except FileNotFoundError:
            times.append("0")
    return "-".join([look.revision, *times, "written" if writer_of(look.path) else "rests"])
