"""A run at a glance, from its manifest, its commits and its newest ones' rows: what the first page shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rollwright.evidence import writer_of
from rollwright.evidence.following import Look, Row
from rollwright.record.metrics import MetricEntry, metric_named

__all__ = ["HEADLINES", "Newest", "RunSummary", "held_out", "newest_metrics", "planned_steps", "summarize"]

HEADLINES: Final = (
    "reward/total",
    "entropy/full",
    "policy/kl_ref",
    "policy/clip_frac",
    "policy/grad_norm",
    "is/ess_frac",
    "mismatch/logp_abs",
    "stale/lag",
    "len/response",
    "len/trunc_rate",
    "sys/tokens_s",
)
"""Of the newest step, on the first page."""
_NEWEST: Final = 3
"""Commits in which the newest numbers are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """A metric as it was last written."""

    name: str
    labels: Mapping[str, str]
    step: int
    value: float | None
    unit: str
    entry: MetricEntry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What a list of runs says of one."""

    run_id: str
    created_at: datetime
    last_commit_at: datetime | None
    recipe: str
    algorithm: str
    model: str
    environment: str
    last_step: int
    planned: int | None
    """Steps that the configuration asks for, over all stages; None where it cannot be told."""
    num_episodes: int
    num_segments: int
    writer: str | None
    """Who writes it now; None: nobody."""
    newest: Row | None
    """Its last held-out evaluation."""
    first: Row | None
    """Its first by the same protocol."""


def summarize(look: Look) -> RunSummary:
    """One run, in a few small queries."""
    manifest = look.manifest
    configured = {value.key: value.value for value in manifest.configuration}
    rows = held_out(look)
    newest = rows[-1] if rows else None
    same = [r for r in rows if newest is not None and r["protocol_sha256"] == newest["protocol_sha256"]]
    return RunSummary(
        run_id=manifest.run.run_id,
        created_at=manifest.run.created_at,
        last_commit_at=look.commits[-1].committed_at if look.commits else None,
        recipe=configured.get("run.name", "unknown").strip('"'),
        algorithm=", ".join(f"{a.stage}: {a.estimator}" for a in manifest.algorithm),
        model=f"{manifest.model.architecture}, {manifest.model.num_parameters:,} parameters",
        environment=manifest.environment.name,
        last_step=look.last_step,
        planned=planned_steps(configured),
        num_episodes=look.count("trajectories"),
        num_segments=look.count("segments"),
        writer=writer_of(look.path),
        newest=newest,
        first=same[0] if len(same) > 1 else None,
    )


def planned_steps(configured: Mapping[str, str]) -> int | None:
    """Steps of all stages that a configuration asks for."""
    stages = [v for k, v in configured.items() if k.startswith("stages.") and k.endswith(".steps")]
    counted = [configured.get("run.steps", ""), *stages]
    return sum(map(int, counted)) if all(text.isdigit() for text in counted) else None


def held_out(look: Look, metric: str = "success") -> list[Row]:
    """One metric over all tasks, in order of steps; by its first row where an evaluation was repeated."""
    return look.ask(
        "SELECT * FROM {evaluations} WHERE metric = $metric AND cardinality(labels) = 0 "
        "QUALIFY row_number() OVER (PARTITION BY protocol_sha256, policy, step ORDER BY recorded_at) = 1 "
        "ORDER BY step, recorded_at",
        {"metric": metric},
        commits=look.holding("evaluations"),
    )


def newest_metrics(look: Look, names: tuple[str, ...] = HEADLINES) -> tuple[Newest, ...]:
    """Each of these metrics as the newest commits have it, over everything; those that a run lacks are left out."""
    rows = look.ask(
        "SELECT name, unit, labels, step, value FROM {metrics} WHERE list_contains($names, name) "
        "AND len(map_keys(labels)) = len(list_filter(map_entries(labels), lambda e: e.key = 'model' AND e.value "
        "= 'policy' "
        "OR e.key = 'stat' AND e.value = 'mean')) "
        "QUALIFY row_number() OVER (PARTITION BY name ORDER BY step DESC, update DESC) = 1",
        {"names": list(names)},
        commits=look.holding("metrics")[-_NEWEST:],
    )
    found = {row["name"]: row for row in rows}
    return tuple(
        Newest(
            name=name,
            labels=found[name]["labels"],
            step=found[name]["step"],
            value=found[name]["value"],
            unit=found[name]["unit"],
            entry=metric_named(name),
        )
        for name in names
        if name in found
    )
