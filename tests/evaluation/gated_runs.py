"""Runs made by hand whose gates are to be judged: series of metrics, evaluations of many tasks, second verifiers."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from rollwright.evidence import CommitRows, ConfigValue, Manifest, RunFolder
from rollwright.record import EvaluationRow, Metric, ScoredTrajectory, Verdict, evaluation_reset_seed
from tests.evidence.runs import START, manifest, metric, scored_trajectory

PROTOCOL = "0" * 64
WARM_STEPS = 2
STAGES = (
    {"kind": "supervised", "name": "warm_start", "steps": WARM_STEPS},
    {"kind": "rl", "name": "rl"},
)
RL_ONLY = ({"kind": "rl", "name": "rl"},)
Tree = Mapping[str, object]


def gate(name: str = "g", *, bound: str = "at_least", limit: float = 0.5, **subject: object) -> dict[str, object]:
    """A gate as a recipe resolves it; a metric gate where nothing else is said."""
    common = {"name": name, "bound": bound, "limit": limit, "label": "I", "source": "by hand"}
    defaults: dict[str, dict[str, object]] = {
        "metric": {"labels": {}, "over": "last", "window": 5, "since": "warm_start"},
        "evaluation": {"measure": "success", "labels": {}, "protocol": "", "by": "interval"},
        "paired": {"measure": "success", "since": "warm_start"},
        "audit": {"figure": "disagreement", "accepts_at": 1.0},
        "kept_audit": {"figure": "disagreement", "labels": {}},
    }
    kind = str(subject.get("kind", "metric"))
    return {**common, "kind": kind, **defaults[kind], **subject}


def gated_manifest(
    gates: Sequence[Tree], *, stages: Sequence[Tree] = STAGES, alarms: Sequence[Tree] = (), steps: int = 6
) -> Manifest:
    """A manifest with these gates among its configuration."""
    values: list[ConfigValue] = [
        ConfigValue(key=key, value=json.dumps(value), origin="default")
        for key, value in (("run.steps", steps), ("verifier.success_threshold", 1.0), ("evaluation.level", 0.95))
    ]
    for section, tables in (("stages", stages), ("gates", gates), ("alarms", alarms)):
        for place, table in enumerate(tables):
            values += _leaves(f"{section}.{place}", table)
    return manifest(configuration=tuple(values))


def write_run(path: Path, made: Manifest, commits: Sequence[CommitRows]) -> Path:
    """A run folder with these commits, a second apart."""
    with RunFolder.create(path, made, "[run]\n") as folder:
        for place, rows in enumerate(commits):
            folder.commit(rows, at=START + timedelta(seconds=place))
    return path


def step_of(step: int, *metrics: Metric, evaluated: CommitRows | None = None) -> CommitRows:
    """A step with metrics, and perhaps an evaluation."""
    return CommitRows(
        kind="step",
        step=step,
        metrics=metrics,
        trajectories=evaluated.trajectories if evaluated else (),
        evaluations=evaluated.evaluations if evaluated else (),
    )


def series(name: str, values: Mapping[int, float | None], **labels: str) -> list[CommitRows]:
    """Steps from 1 on, each with its value of one metric; a step that is not named has none."""
    return [
        step_of(step, *([metric(name, values[step], step=step, update=step, **labels)] if step in values else []))
        for step in range(1, max(values, default=0) + 1)
    ]


def evaluated(
    step: int,
    scores: Mapping[int, float],
    *,
    second: Mapping[int, float] | None = None,
    protocol: str = PROTOCOL,
    first_group: int = 0,
    row: EvaluationRow | None = None,
) -> CommitRows:
    """An evaluation of a step: the reward of each task, what a second verifier says, and the row of success."""
    members = [_member(step, task, score, second, protocol, first_group) for task, score in scores.items()]
    hits = sum(score >= 1.0 for score in scores.values())
    found = row or success_row(step, hits / len(scores), 0.0, 1.0, protocol=protocol, num_tasks=len(scores))
    return CommitRows(kind="evaluation", step=step, trajectories=members, evaluations=[found])


def success_row(
    step: int,
    value: float | None,
    low: float | None,
    high: float | None,
    *,
    protocol: str = PROTOCOL,
    num_tasks: int = 10,
    labels: Mapping[str, str] | None = None,
    recorded_at: datetime = START,
    evaluation: str | None = None,
) -> EvaluationRow:
    return EvaluationRow(
        evaluation=evaluation or f"held-out@{step}",
        protocol="held-out",
        protocol_sha256=protocol,
        policy="policy",
        policy_version=step,
        step=step,
        metric="success",
        value=value,
        low=low,
        high=high,
        level=0.95,
        interval_method="wilson",
        labels=labels or {},
        num_tasks=num_tasks,
        num_trajectories=num_tasks,
        num_unscored=0,
        recorded_at=recorded_at,
    )


def _member(
    step: int, task: int, score: float, second: Mapping[int, float] | None, protocol: str, first_group: int
) -> ScoredTrajectory:
    scored = scored_trajectory(
        group_id=first_group + 1000 * step + task, slot=0, purpose="evaluation", version=step, outcome=score
    )
    # The same task at every step, whatever its group.
    of_task = scored_trajectory(group_id=task, slot=0).trajectory.task
    trajectory = dataclasses.replace(
        scored.trajectory, task=of_task, reset_seed=evaluation_reset_seed(protocol, of_task.task_id)
    )
    said = () if second is None or task not in second else (_verdict(scored, second[task]),)
    return dataclasses.replace(scored, trajectory=trajectory, verdicts=(*scored.verdicts, *said))


def _verdict(scored: ScoredTrajectory, value: float) -> Verdict:
    return Verdict(
        trajectory_id=scored.trajectory_id, verifier="second", revision="second-1", scope="trajectory", outcome=value
    )


def _leaves(prefix: str, tree: Tree) -> list[ConfigValue]:
    found: list[ConfigValue] = []
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            found += _leaves(f"{prefix}.{key}", value)
        else:
            found.append(ConfigValue(key=f"{prefix}.{key}", value=json.dumps(value), origin="file r.toml"))
    return found
