"""What one arm came to, from the tables of its run alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from rollwright.evidence import GROUPS_PER_COMMIT, RunFolder, connect
from rollwright.recipes.ladder.errors import LadderError
from rollwright.recipes.ladder.intervals import share_interval
from rollwright.recipes.ladder.lag.arms import Arm, final_commit, first_rl_step
from rollwright.recipes.ladder.lag.level import FinalProtocol
from rollwright.recipes.ladder.lag.measured import MeasuredRow, Spread, largest, mean, spread, total

if TYPE_CHECKING:
    import duckdb

__all__ = ["ArmFigures", "CurvePoint", "Score", "Staleness", "figures_of", "score_of"]

_QUANTILES = ("0.5", "0.9", "0.95", "0.99")
_STEP_SECONDS = ("time/collect", "time/learn", "time/publish", "time/save")
_NAMES = (
    *_STEP_SECONDS,
    "data/slots",
    "is/ess_frac",
    "is/frac_truncated",
    "is/max",
    "is/quantiles",
    "mask/trained_tokens",
    "mismatch/logp_abs",
    "mismatch/probe_logp_abs",
    "policy/kl_beh",
    "policy/kl_beh_k3",
    "stale/lag",
    "stale/lag_hist",
)
_METRICS = """SELECT step, name, labels, value, num_items FROM metrics
  WHERE step >= $before AND list_contains($names, name) ORDER BY step, update"""
_CURVE = """SELECT step, value, low, high FROM evaluations
  WHERE metric = 'success' AND cardinality(labels) = 0 AND protocol_sha256 = $protocol AND step >= $before
  ORDER BY recorded_at"""
_EVALUATION_SECONDS = f"""SELECT version, epoch(max(ended_at)) - epoch(min(started_at)) FROM (
  SELECT trajectory_id, started_at, ended_at, min(policy_version) AS version FROM trajectories
  JOIN segments USING (trajectory_id)
  WHERE purpose = 'evaluation' AND group_id < {GROUPS_PER_COMMIT} AND policy_version > $before GROUP BY ALL)
  GROUP BY version"""
_FINAL = f"""SELECT task_id, avg(CAST(reward >= $threshold AS DOUBLE)) FROM trajectories
  WHERE purpose = 'evaluation' AND reward IS NOT NULL AND group_id // {GROUPS_PER_COMMIT} = $commit GROUP BY task_id"""
_CURVE_TASKS = f"""SELECT version - $before AS updates, task_id, avg(CAST(reward >= $threshold AS DOUBLE)) FROM (
  SELECT trajectory_id, task_id, reward, min(policy_version) AS version FROM trajectories
  JOIN segments USING (trajectory_id)
  WHERE purpose = 'evaluation' AND group_id < {GROUPS_PER_COMMIT} AND reward IS NOT NULL AND policy_version >= $before
  GROUP BY ALL) GROUP BY ALL"""
_DISAGREEMENT = """SELECT count(*),
  count(*) FILTER ((terminal_reason = 'environment_success') <> (reward >= $threshold)),
  count(*) FILTER (terminal_reason IN ('environment_success', 'environment_failure'))
  FROM trajectories WHERE purpose = 'train' AND reward IS NOT NULL"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A share with its interval."""

    value: float
    low: float
    high: float
    num_tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Held-out success after some updates, and what it had taken to come there."""

    updates: int
    success: float
    low: float | None
    high: float | None
    steps_s: float
    """Seconds of the steps alone."""
    clock_s: float
    """Seconds since RL began, the evaluations in between counted, this one not."""
    episodes: int
    """That had ended by then, whatever became of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness:
    """How old the trained tokens were, and how far their policy was from the one that learned. None: not measured."""

    lag_mean: float | None
    lag_max: float | None
    lag_shares: Mapping[str, float]
    """Lag to its share of all trained tokens."""
    weights: Mapping[str, Spread]
    """Quantile to proximal over behavior, over the updates."""
    weight_max: float | None
    weights_held: float | None
    """Share of trained tokens at the correction's cap."""
    ess: Spread
    """Effective sample size over the number of tokens; its worst is the smallest."""
    kl: float | None
    """Mean of behavior minus current, nats a token."""
    kl_k3: float | None
    """The same by an estimate that is never negative."""
    kl_k3_max: float | None
    """Of the worst update."""
    mismatch: float | None
    """Largest difference of engine and learner at equal weights, nats."""
    probe: float | None
    """Likewise on the fixed contexts."""
    disagreement: float | None
    """Share of trained episodes on which the verifier and the environment's own end differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """One arm, measured."""

    name: str
    value: int
    run: str
    commit: str
    protocol: str
    """Digest of the protocol of its curve."""
    threads: Mapping[str, int]
    resumed: int
    """How often it was gone on with."""
    updates: int
    steps_s: float
    """Wall seconds of RL without its evaluations."""
    clock_s: float
    """With those between its first and its last step."""
    trained_tokens: int
    tokens_per_s: float
    """Trained tokens over `steps_s`."""
    episodes: int
    """That ended, whatever became of them."""
    curve: tuple[CurvePoint, ...]
    final: Score
    by_task: Mapping[str, float]
    """Of the final evaluation: task to its share of successes."""
    curve_by_task: Mapping[int, Mapping[str, float]]
    """Of each point of the curve, by its updates: likewise."""
    staleness: Staleness


def figures_of(arm: Arm, final: FinalProtocol) -> ArmFigures:
    """Measure a complete arm.

    Raises:
        LadderError: where the tables lack what a complete run has.
    """
    folder = RunFolder.open(arm.path)
    recipe = arm.resolved.recipe
    before, threshold = first_rl_step(recipe) - 1, recipe.verifier.success_threshold
    commit = final_commit(arm, final)
    if commit is None:
        raise LadderError(f"{arm.path} has no evaluation of {final.tasks} tasks × {final.samples} at its last step.")
    with connect(arm.path) as connection:
        rows = _metrics(connection, before)
        curve = _curve(connection, rows, before, folder.manifest.evaluation.protocol_sha256)
        by_task = cast(
            "dict[str, float]",
            dict(connection.execute(_FINAL, {"threshold": threshold, "commit": commit}).fetchall()),
        )
        curve_by_task = _curve_by_task(connection, before, threshold)
        disagreement = _disagreement(connection, threshold)
    of_rl = [row for row in rows if row.step > before]
    steps_s, tokens = sum(_seconds_by_step(of_rl).values()), total(of_rl, "mask/trained_tokens")
    if not curve or not by_task or steps_s <= 0:
        raise LadderError(f"{arm.path} holds no measured step of RL, or no scored evaluation; look at its log.")
    return ArmFigures(
        name=arm.name,
        value=arm.value,
        run=str(arm.path),
        commit=folder.manifest.run.code_commit,
        protocol=folder.manifest.evaluation.protocol_sha256,
        threads=dict(folder.manifest.machine.threads),
        resumed=sum(event.kind == "resumed" for event in folder.events()),
        updates=recipe.run.steps,
        steps_s=steps_s,
        clock_s=curve[-1].clock_s,
        trained_tokens=int(tokens),
        tokens_per_s=tokens / steps_s,
        episodes=curve[-1].episodes,
        curve=curve,
        final=score_of(by_task),
        by_task=by_task,
        curve_by_task=curve_by_task,
        staleness=_staleness(of_rl, disagreement),
    )


def _metrics(connection: "duckdb.DuckDBPyConnection", before: int) -> list[MeasuredRow]:
    found = connection.execute(_METRICS, {"before": before, "names": list(_NAMES)}).fetchall()
    return [
        MeasuredRow(
            step=step,
            name=name,
            labels={key: label for key, label in cast("dict[str, str]", labels).items() if key != "model"},
            value=value,
            num_items=items,
        )
        for step, name, labels, value, items in found
    ]


def _curve(
    connection: "duckdb.DuckDBPyConnection", rows: Sequence[MeasuredRow], before: int, protocol: str
) -> tuple[CurvePoint, ...]:
    found = connection.execute(_CURVE, {"protocol": protocol, "before": before}).fetchall()
    spans = cast("list[tuple[int, float]]", connection.execute(_EVALUATION_SECONDS, {"before": before}).fetchall())
    seconds, ended = _seconds_by_step(rows), _ended_by_step(rows)
    first: dict[int, CurvePoint] = {}
    for step, success, low, high in found:
        if success is None or step in first:  # a later `eval` by the same protocol is no new point
            continue
        steps_s = sum(s for at, s in seconds.items() if before < at <= step)
        first[step] = CurvePoint(
            updates=step - before,
            success=success,
            low=low,
            high=high,
            steps_s=steps_s,
            clock_s=steps_s + sum(s for at, s in spans if at < step),
            episodes=ended.get(step, 0) - ended.get(before, 0),
        )
    return tuple(first[step] for step in sorted(first))


def _curve_by_task(
    connection: "duckdb.DuckDBPyConnection", before: int, threshold: float
) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    rows = connection.execute(_CURVE_TASKS, {"before": before, "threshold": threshold}).fetchall()
    for updates, task, success in cast("list[tuple[int, str, float]]", rows):
        found.setdefault(updates, {})[task] = success
    return found


def _seconds_by_step(rows: Sequence[MeasuredRow]) -> dict[int, float]:
    found: dict[int, float] = {}
    for row in rows:
        if row.name in _STEP_SECONDS:
            found[row.step] = found.get(row.step, 0.0) + (row.value or 0.0)
    return found


def _ended_by_step(rows: Sequence[MeasuredRow]) -> dict[int, int]:
    """Slots of the run that had ended by a step: all but those in flight, and those that another took over."""
    found: dict[int, int] = {}
    for row in rows:
        if row.name == "data/slots" and row.labels["state"] not in ("in_flight", "requeued"):
            found[row.step] = found.get(row.step, 0) + int(row.value or 0)
    return found


def _disagreement(connection: "duckdb.DuckDBPyConnection", threshold: float) -> float | None:
    """None where the environment never says how an episode ended."""
    ((num, apart, said),) = connection.execute(_DISAGREEMENT, {"threshold": threshold}).fetchall()
    return apart / num if said else None


def score_of(by_task: Mapping[str, float]) -> Score:
    """The mean over tasks with its interval, by the rule of an evaluation: Wilson's where all of it is 0 or 1.

    Raises:
        LadderError: for one task alone.
    """
    means = np.array([by_task[task] for task in sorted(by_task)], dtype=np.float64)
    value, bounds = float(means.mean()), share_interval(means)
    if bounds is None:
        raise LadderError("the final evaluation has one task, which says nothing of others; give --tasks 2 or more.")
    return Score(value=value, low=max(0.0, bounds.low), high=min(1.0, bounds.high), num_tasks=len(means))


def _staleness(rows: Sequence[MeasuredRow], disagreement: float | None) -> Staleness:
    trained = total(rows, "mask/trained_tokens") or 1.0
    ages: dict[str, float] = {}
    for row in rows:
        if row.name == "stale/lag_hist":
            ages[row.labels["lag"]] = ages.get(row.labels["lag"], 0.0) + (row.value or 0.0)
    tokens = sum(ages.values()) or trained
    return Staleness(
        lag_mean=mean(rows, "stale/lag", stat="mean"),
        lag_max=largest(rows, "stale/lag", stat="max"),
        lag_shares={lag: ages[lag] / tokens for lag in sorted(ages, key=int)},
        weights={q: spread(rows, "is/quantiles", max, quantile=q) for q in _QUANTILES},
        weight_max=largest(rows, "is/max"),
        weights_held=mean(rows, "is/frac_truncated"),
        ess=spread(rows, "is/ess_frac", min),
        kl=mean(rows, "policy/kl_beh"),
        kl_k3=mean(rows, "policy/kl_beh_k3"),
        kl_k3_max=largest(rows, "policy/kl_beh_k3"),
        mismatch=largest(rows, "mismatch/logp_abs", stat="max"),
        probe=largest(rows, "mismatch/probe_logp_abs"),
        disagreement=disagreement,
    )
