"""Where the time of a run goes: each part busy, syncing, starved or blocked, and which one the others wait for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rollwright.evidence.following import Look

__all__ = ["PART_STATES", "PartShare", "StageTimes", "read_times"]

PART_STATES: Final = ("busy", "syncing", "starved", "blocked")
_PHASES: Final = ("time/collect", "time/learn", "time/publish", "time/save")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartShare:
    """One part of a run over some steps."""

    part: str
    seconds: Mapping[str, float]
    """By state."""

    @property
    def total(self) -> float:
        """Of all states."""
        return sum(self.seconds.values())

    @property
    def worked(self) -> float:
        """Busy or syncing."""
        return self.seconds.get("busy", 0.0) + self.seconds.get("syncing", 0.0)

    def share(self, state: str) -> float:
        """Of its time; 0 of none."""
        return self.seconds.get(state, 0.0) / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """A stage, or all that was measured."""

    name: str
    first_step: int
    last_step: int
    parts: tuple[PartShare, ...]
    phases: Mapping[str, float]
    """Seconds of a step's phases: collect, learn, publish, save."""

    @property
    def bottleneck(self) -> str | None:
        """The part that worked longest; None where nothing was measured."""
        return max(self.parts, key=lambda p: p.worked).part if any(p.worked for p in self.parts) else None


def read_times(look: Look) -> tuple[StageTimes, ...]:
    """One entry a stage, in order of steps."""
    stages = _stages(look)
    rows = look.ask(
        "SELECT step, name, coalesce(labels['part'], '') AS part, coalesce(labels['state'], '') AS state, "
        "sum(value) AS s "
        "FROM {metrics} WHERE name = 'time/part' OR list_contains($phases, name) GROUP BY ALL ORDER BY ALL",
        {"phases": list(_PHASES)},
        commits=look.holding("metrics"),
    )
    found: list[StageTimes] = []
    for name, first, last in stages:
        inside = [row for row in rows if first <= row["step"] <= last]
        parts: dict[str, dict[str, float]] = {}
        phases: dict[str, float] = {}
        for row in inside:
            if row["name"] == "time/part":
                states = parts.setdefault(row["part"], {})
                states[row["state"]] = states.get(row["state"], 0.0) + float(row["s"] or 0)
            else:
                phase = str(row["name"]).removeprefix("time/")
                phases[phase] = phases.get(phase, 0.0) + float(row["s"] or 0)
        shares = tuple(PartShare(part=part, seconds=seconds) for part, seconds in sorted(parts.items()))
        found.append(StageTimes(name=name, first_step=first, last_step=last, parts=shares, phases=phases))
    return tuple(found)


def _stages(look: Look) -> list[tuple[str, int, int]]:
    """Name, first and last step of each stage, as the episodes of its steps say."""
    rows = look.ask(
        "SELECT filename, any_value(stage) AS stage FROM {trajectories} WHERE purpose IN ('train', "
        "'demonstration') GROUP BY filename",
        commits=look.holding("trajectories"),
    )
    named = {str(row["filename"]).rpartition("/")[2]: str(row["stage"]) for row in rows}
    found: list[tuple[str, int, int]] = []
    for commit in look.commits:
        files = [s.path.rpartition("/")[2] for s in commit.shards if s.table == "trajectories"]
        stage = next((named[f] for f in files if f in named), None)
        if commit.kind != "step" or commit.step == 0:
            continue
        stage = stage or (found[-1][0] if found else "rl")
        if found and found[-1][0] == stage:
            found[-1] = (stage, found[-1][1], commit.step)
        else:
            found.append((stage, commit.step, commit.step))
    return found
