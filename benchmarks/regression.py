"""Whether a ratio fell: a short run beside what `regression.json` holds.

    {"against_trl": {"arguments": ["--repetitions", "3"], "rows": {"(a) single turn, short: step": {"ratio": 1.6,
     "spread": 0.2, "side": "at_least"}}}}

A ratio may move by its spread, a share of it, in the wrong direction; beyond that there is a sentence and exit code 1.
Ratios are compared, never seconds, since both sides slow down on a slower machine.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.report import Report, Row, Side

__all__ = ["FILE", "SHORT", "Kept", "Short", "Standing", "compared", "read_standings", "standing_of", "write_standings"]

FILE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Short:
    """How a script is run again."""

    arguments: tuple[str, ...]
    """What makes it short."""
    rows: str = ""
    """How the rows begin that it then has; empty: all."""


SHORT: Mapping[str, Short] = {
    "against_trl": Short(("--repetitions", "3", "--warm-up", "1")),
    "engine": Short(
        ("--cases", "mixed-64", "--sides", "deterministic", "generate", "--repetitions", "3"),
        rows="mixed lengths, 64 requests, against transformers",
    ),
    "shared_prompt": Short(("--repetitions", "3")),
}
"""Scripts that are run again."""
LEAST_SPREAD = 0.2
"""What a shared machine does to a ratio of few turns."""


@dataclass(frozen=True)
class Kept:
    """A ratio as it stood."""

    ratio: float
    spread: float
    """The share of it by which a later one may be worse."""
    side: Side


@dataclass(frozen=True)
class Standing:
    """The ratios of one script."""

    arguments: tuple[str, ...]
    rows: Mapping[str, Kept]


def standing_of(report: Report, short: Short) -> Standing:
    """What to keep of a long run: the ratios of two sides that have a target, with a spread that covers their turns."""
    rows = {
        row.what: _kept(row, row.ratio)
        for row in report.rows
        if row.ratio and row.target is not None and row.peer is not None and row.what.startswith(short.rows)
    }
    return Standing(short.arguments, rows)


def compared(standing: Standing, report: Report) -> list[str]:
    """A sentence for each ratio that is worse than its spread allows, or that is not there any more."""
    now = {row.what: row.ratio for row in report.rows}
    why = next((row.note for row in report.rows if row.has_failed), "")
    return [sentence for what, kept in standing.rows.items() if (sentence := _fault(what, kept, now.get(what), why))]


def read_standings(file: Path = FILE) -> dict[str, Standing]:
    if not file.is_file():
        raise FileNotFoundError(f"there is no {file}; `python -m benchmarks --keep` writes it from the results.")
    read = json.loads(file.read_text(encoding="utf-8"))
    return {
        name: Standing(tuple(one["arguments"]), {what: Kept(**kept) for what, kept in one["rows"].items()})
        for name, one in read.items()
    }


def write_standings(standings: Mapping[str, Standing], file: Path = FILE) -> None:
    written = {name: asdict(standing) for name, standing in standings.items()}
    file.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


def _kept(row: Row, ratio: float) -> Kept:
    worst = row.low if row.target_side == "at_least" else row.high
    own = abs(ratio - worst) / ratio if worst is not None else 0.0
    return Kept(ratio=round(ratio, 3), spread=round(max(LEAST_SPREAD, own), 3), side=row.target_side)


def _fault(what: str, kept: Kept, ratio: float | None, why: str) -> str:
    if ratio is None:
        return f"{what}: it stood at {kept.ratio:.2f} and was not measured now{f' ({why})' if why else ''}."
    if kept.side == "at_least" and ratio < kept.ratio * (1 - kept.spread):
        return f"{what}: {kept.ratio:.2f} fell to {ratio:.2f}, by more than its spread of {kept.spread:.0%}."
    if kept.side == "at_most" and ratio > kept.ratio * (1 + kept.spread):
        return f"{what}: {kept.ratio:.2f} rose to {ratio:.2f}, by more than its spread of {kept.spread:.0%}."
    return ""
