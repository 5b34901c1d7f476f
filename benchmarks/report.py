"""What a benchmark found, as every script here writes it with `--json FILE`, and the tables made of it.

    {"name": "engine", "about": {...}, "rows": [{"what": "decode, batch 64", "ours": 12000, "peer": 9000, "ratio": 1.33,
     "low": 1.30, "high": 1.35, "unit": "tokens/s", "target": 2.5, "target_side": "at_least"}]}

`ratio` is above 1 where rollwright is the better, except where the target is "at_most": there it is a multiple of a
floor or a share, and less is better. A row without a peer has `peer` null; one without a target has `target` null.
"""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

__all__ = ["Report", "Row", "failed", "machine", "read_report", "table", "versions", "write_report"]

Side = Literal["at_least", "at_most"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure, with what it is compared to."""

    what: str
    ours: float | None
    peer: float | None
    ratio: float | None
    """The figure that a target is of, as a median over turns."""
    low: float | None = None
    high: float | None = None
    unit: str = ""
    """Of `ours` and `peer`."""
    target: float | None = None
    target_side: Side = "at_least"
    is_held_back: bool = False
    """Whether something beside the ratio is asked, and was not there; `note` says what."""
    note: str = ""
    """Why there is no figure, or what must be known to read it."""

    @property
    def has_failed(self) -> bool:
        """Whether there is no figure at all."""
        return self.ratio is None and self.ours is None

    @property
    def is_met(self) -> bool | None:
        """None where there is nothing to be met."""
        if self.target is None:
            return None
        if self.ratio is None:
            return False
        if self.is_held_back:
            return False
        return self.ratio >= self.target if self.target_side == "at_least" else self.ratio <= self.target


@dataclass(frozen=True, kw_only=True)
class Report:
    """All rows of one script."""

    name: str
    rows: tuple[Row, ...]
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])


def write_report(report: Report, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")


def read_report(file: Path) -> Report:
    """Keys that a row does not have here are refused, so that a typing error is seen."""
    read = json.loads(file.read_text(encoding="utf-8"))
    return Report(name=read["name"], rows=tuple(Row(**row) for row in read["rows"]), about=read.get("about", {}))


def failed(name: str, why: str, title: str = "") -> Report:
    """In the place of a report that did not come."""
    return Report(name=name, rows=(Row(what=title or name, ours=None, peer=None, ratio=None, note=why),))


def machine() -> dict[str, Any]:
    """Where and when: date, processor, cores, memory."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def versions(*packages: str) -> dict[str, str]:
    """Of those packages that are installed here."""
    found: dict[str, str] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def table(rows: Sequence[Row]) -> list[str]:
    """Lines of a Markdown table."""
    lines = ["| | rollwright | other side | ratio (lowest to highest) | target |", "|---|---|---|---|---|"]
    for row in rows:
        unit = f" {row.unit}" if row.unit else ""
        ours, peer = (_shown(value, unit) for value in (row.ours, row.peer))
        lines.append(f"| {row.what} | {ours} | {peer} | {ratio_text(row)} | {target_text(row)} |")
    return lines


def ratio_text(row: Row) -> str:
    if row.has_failed:
        return f"not measured: {row.note}" if row.note else "not measured"
    if row.ratio is None:
        return ""
    spread = f" ({_short(row.low)} to {_short(row.high)})" if row.low is not None and row.high is not None else ""
    return _short(row.ratio) + spread


def target_text(row: Row) -> str:
    if row.target is None:
        return ""
    words = "at least" if row.target_side == "at_least" else "at most"
    return f"{words} {_short(row.target)}: {'met' if row.is_met else 'not met'}"


def _shown(value: float | None, unit: str) -> str:
    return "" if value is None else _short(value) + unit


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
