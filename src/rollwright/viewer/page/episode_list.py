"""The table of episodes: filters and order from an address, one page of rows.

What a visitor typed is only ever a value of the query; columns and orders come from the lists here. Without a filter
the newest come from the newest commits alone, however large the run is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from rollwright.evidence import Commit
from rollwright.evidence.following import Look, Row
from rollwright.record import Purpose, TerminalReason

__all__ = ["ORDERS", "PAGE_SIZE", "PURPOSES", "REASONS", "EpisodeFilter", "EpisodeTable", "filter_of", "list_episodes"]

PAGE_SIZE: Final = 50
PURPOSES: Final[tuple[str, ...]] = get_args(Purpose)
REASONS: Final[tuple[str, ...]] = tuple(str(reason) for reason in TerminalReason)

_Order = Literal["newest", "oldest", "best", "worst", "longest", "shortest", "slowest"]
ORDERS: Final[Mapping[str, str]] = {
    "newest": "filename DESC, trajectory_id DESC",
    "oldest": "filename, trajectory_id",
    "best": "reward DESC NULLS LAST, trajectory_id",
    "worst": "reward NULLS LAST, trajectory_id",
    "longest": "num_tokens DESC, trajectory_id",
    "shortest": "num_tokens, trajectory_id",
    "slowest": "sampling_s + tools_s + verifying_s DESC, trajectory_id",
}
"""Word of an address to the columns that it means."""

_COLUMNS: Final = (
    "trajectory_id, purpose, stage, group_id, slot, attempt, task_id, task_source, terminal_reason, failure_class, "
    "reward, unscored_reason, num_turns, num_tokens, num_action_tokens, started_at, "
    "sampling_s + tools_s + verifying_s AS took_s, filename"
)
_CONDITIONS: Final = {
    "purpose": "purpose = $purpose",
    "task": "task_id = $task",
    "source": "task_source = $source",
    "reason": "terminal_reason = $reason",
    "group": "group_id = $group",
    "least": "reward >= $least",
    "most": "reward <= $most",
    "text": "(contains(lower(trajectory_id), lower($text)) OR contains(lower(task_id), lower($text)))",
    "tool": "trajectory_id IN (SELECT trajectory_id FROM {tool_calls} WHERE tool = $tool)",
}
_LONGEST_TEXT = 500
_SUGGESTED_COMMITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFilter:
    """Which episodes, in which order, which page; None: whatever it is."""

    purpose: str | None = None
    step: int | None = None
    """Episodes that the commit of this step holds."""
    task: str | None = None
    source: str | None = None
    reason: str | None = None
    group: int | None = None
    least: float | None = None
    """Of the reward."""
    most: float | None = None
    tool: str | None = None
    """Asked for at least once."""
    text: str | None = None
    """Part of a trajectory's or a task's id."""
    order: str = "newest"
    page: int = 1
    ignored: tuple[str, ...] = ()
    """Parameters whose values could not be read."""

    @property
    def query(self) -> dict[str, object]:
        """Its parameters, for an address; the page left out."""
        given = {name: value for name, value in asdict(self).items() if name not in ("page", "ignored")}
        return {name: value for name, value in given.items() if value is not None and (name, value) != _PLAIN}

    @property
    def conditions(self) -> tuple[str, ...]:
        """Names of the filters that are set, but for the step, which chooses commits."""
        return tuple(name for name in self.query if name in _CONDITIONS)


_PLAIN = ("order", "newest")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeTable:
    """One page of the table."""

    rows: tuple[Row, ...]
    total: int
    page: int
    num_pages: int
    sources: tuple[str, ...]
    tools: tuple[str, ...]
    """Seen in the newest commits; to be suggested."""

    @property
    def first(self) -> int:
        """Place of the first row, from 1; 0 of nothing."""
        return (self.page - 1) * PAGE_SIZE + 1 if self.rows else 0


def filter_of(query: Mapping[str, str]) -> EpisodeFilter:
    """Read the parameters of an address; what cannot be read is named, and filters nothing."""
    given = {name: value[:_LONGEST_TEXT] for name, value in query.items() if value.strip()}
    ignored: list[str] = []

    def text(name: str, allowed: tuple[str, ...] | None = None) -> str | None:
        value = given.get(name)
        if value is not None and allowed is not None and value not in allowed:
            ignored.append(name)
            return None
        return value

    def whole(name: str) -> int | None:
        value = given.get(name)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or len(value) > 18:
            ignored.append(name)
            return None
        return int(value)

    def real(name: str) -> float | None:
        try:
            value = float(given[name]) if name in given else None
        except ValueError:
            value = math.nan
        if value is not None and not math.isfinite(value):
            ignored.append(name)
            return None
        return value

    return EpisodeFilter(
        purpose=text("purpose", PURPOSES),
        step=whole("step"),
        task=text("task"),
        source=text("source"),
        reason=text("reason", REASONS),
        group=whole("group"),
        least=real("least"),
        most=real("most"),
        tool=text("tool"),
        text=text("text"),
        order=text("order", tuple(ORDERS)) or "newest",
        page=max(1, whole("page") or 1),
        ignored=tuple(ignored),
    )


def list_episodes(look: Look, wanted: EpisodeFilter) -> EpisodeTable:
    """One page of the episodes that a filter leaves."""
    commits = look.holding("trajectories")
    if wanted.step is not None:
        commits = tuple(c for c in commits if c.step == wanted.step)
    where = " AND ".join(_CONDITIONS[name] for name in wanted.conditions)
    values = {name: wanted.query[name] for name in wanted.conditions}
    if where:
        [counted] = look.ask(f"SELECT count(*) AS n FROM {{trajectories}} WHERE {where}", values, commits=commits)
        total = int(counted["n"])
    else:
        total = sum(s.num_rows for c in commits for s in c.shards if s.table == "trajectories")
    num_pages = max(1, -(-total // PAGE_SIZE))
    page = min(wanted.page, num_pages)
    skipped = (page - 1) * PAGE_SIZE
    if not where and wanted.order in ("newest", "oldest"):
        ordered = commits if wanted.order == "oldest" else commits[::-1]
        commits, skipped = _enough(ordered, skipped)
    sql = (
        f"SELECT {_COLUMNS} FROM {{trajectories}}{' WHERE ' + where if where else ''} "
        f"ORDER BY {ORDERS[wanted.order]} LIMIT {PAGE_SIZE} OFFSET {skipped}"
    )
    rows = look.ask(sql, values, commits=commits) if total else []
    steps = {s.path.rpartition("/")[2]: c.step for c in commits for s in c.shards if s.table == "trajectories"}
    for row in rows:
        row["step"] = steps[Path(str(row["filename"])).name]
    sources, tools = _suggestions(look)
    return EpisodeTable(rows=tuple(rows), total=total, page=page, num_pages=num_pages, sources=sources, tools=tools)


def _enough(commits: Sequence[Commit], skipped: int) -> tuple[tuple[Commit, ...], int]:
    """The commits that hold the rows of a page, in the order given, and how many of their rows come before it."""
    kept: list[Commit] = []
    before, held = 0, 0
    for commit in commits:
        size = sum(s.num_rows for s in commit.shards if s.table == "trajectories")
        if not kept and before + size <= skipped:
            before += size
            continue
        kept.append(commit)
        held += size
        if before + held >= skipped + PAGE_SIZE:
            break
    return tuple(kept), skipped - before


def _suggestions(look: Look) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sources and tools that the newest commits name."""
    newest = look.commits[-_SUGGESTED_COMMITS:]
    sources = look.ask("SELECT DISTINCT task_source AS name FROM {trajectories} ORDER BY 1 LIMIT 100", commits=newest)
    tools = look.ask("SELECT DISTINCT tool AS name FROM {tool_calls} ORDER BY 1 LIMIT 100", commits=newest)
    return tuple(str(r["name"]) for r in sources), tuple(str(r["name"]) for r in tools)
