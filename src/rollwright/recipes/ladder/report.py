"""What a level came to: verdicts, tables and where each number comes from; in memory, as JSON and as Markdown."""

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import TypeAdapter

from rollwright.recipes.ladder.plan import Limit
from rollwright.record.gates import GateVerdict, Outcome

__all__ = ["LadderVerdict", "LevelReport", "RunNote", "Table", "document_of", "markdown_of", "write_report"]

_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderVerdict:
    """One gate of one run."""

    run: str
    """Empty: of the level."""
    limit: Limit
    verdict: GateVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Numbers beside each other."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """A run that a number may come from."""

    name: str
    folder: str
    """Below the folder of the ladder."""
    code_commit: str
    protocol_sha256: str
    """Of its held-out evaluations."""
    steps: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelReport:
    """What a level came to."""

    level: int
    title: str
    scale: str
    """How the build differs from the documented one."""
    verdicts: tuple[LadderVerdict, ...]
    tables: tuple[Table, ...] = ()
    runs: tuple[RunNote, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader has to know of the numbers."""
    missing: tuple[str, ...] = ()
    """What of the documented build could not be run."""
    fault: str = ""
    """That was injected; empty: none."""
    seconds: float = 0.0
    """Of this climb, what it only read included."""

    @property
    def outcome(self) -> Outcome:
        """Failed where a gate failed; passed where there are gates and all did."""
        found = {one.verdict.outcome for one in self.verdicts}
        if "failed" in found:
            return "failed"
        return "passed" if found == {"passed"} and not self.missing else "not enough evidence"

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the gates that failed."""
        return tuple(dict.fromkeys(one.verdict.gate for one in self.verdicts if one.verdict.outcome == "failed"))


def write_report(folder: Path, report: LevelReport) -> Path:
    """Write `level-N.json` and `level-N.md` into the folder of the ladder.

    Returns:
        The path of the Markdown.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / f"level-{report.level}.json", json.dumps(document_of(report), indent=1, allow_nan=False) + "\n")
    page = folder / f"level-{report.level}.md"
    _replace(page, markdown_of(report))
    return page


def markdown_of(report: LevelReport) -> str:
    """The report as a person reads it."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: LevelReport) -> Iterator[str]:
    yield f"# Level {report.level}: {report.title}"
    yield ""
    yield f"**{report.outcome}**"
    yield ""
    if report.fault:
        yield f"The fault `{report.fault}` was injected: this is a test of the gates and no evidence of anything else."
        yield ""
    yield report.scale
    yield ""
    yield "## Gates"
    yield ""
    header = ("run", "gate", "verdict", "because", "limit", "label", "where the limit comes from", "what was measured")
    yield from _table(header, [_row(one) for one in report.verdicts])
    for table in report.tables:
        yield f"## {table.title}"
        yield ""
        yield from _table(table.header, table.rows)
    if report.runs:
        yield "## Where the numbers come from"
        yield ""
        header = ("run", "folder", "code", "protocol", "steps", "seconds")
        yield from _table(header, [_note(one) for one in report.runs])
    for title, sentences in (("What could not be run", report.missing), ("Notes", report.notes)):
        if sentences:
            yield f"## {title}"
            yield ""
            yield from (f"- {sentence}" for sentence in sentences)
            yield ""
    yield f"Labels: D disclosed by a source, C confirmed in an artifact, I chosen here. {report.seconds:.0f} seconds."


def _row(one: LadderVerdict) -> tuple[str, ...]:
    verdict, limit = one.verdict, one.limit
    measured = verdict.measured
    return (
        one.run,
        verdict.gate,
        verdict.outcome,
        verdict.because,
        str(verdict.bound),
        limit.label,
        limit.source,
        f"{measured.source} ({measured.num_items} items)",
    )


def _note(one: RunNote) -> tuple[str, ...]:
    return (one.name, one.folder, one.code_commit[:12], one.protocol_sha256[:12], str(one.steps), f"{one.seconds:.0f}")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        cells = [cell.replace("|", "\\|") for cell in row]
        yield f"| {' | '.join(cells)} |"
    yield ""


def document_of(report: LevelReport) -> dict[str, object]:
    """The report as a machine reads it; what is infinite is a text, since JSON has no word for it."""
    plain: object = _finite(TypeAdapter(LevelReport).dump_python(report, mode="json"))
    assert isinstance(plain, dict), "a record is a map"
    return {"schema_version": _SCHEMA_VERSION, "outcome": report.outcome, **cast("dict[str, object]", plain)}


def _finite(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {key: _finite(one) for key, one in cast("dict[str, object]", value).items()}
        case list() | tuple():
            return [_finite(one) for one in cast("Sequence[object]", value)]
        case _:
            return value


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
