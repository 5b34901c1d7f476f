"""The end of a command that ran something: what was learned or measured, what it cost, what to try next."""

import shlex

from rollwright.cli.machine import print_json
from rollwright.cli.screen import JsonScreen, Screen, interval
from rollwright.evaluation import Evaluation
from rollwright.recipes.runs import TrainResult
from rollwright.record import EvaluationRow
from rollwright.runtime.progress import EvaluationPoint

__all__ = ["show_evaluation", "show_result"]


def show_result(result: TrainResult, screen: Screen) -> None:
    """The last line of `train --json`, or a table for a person."""
    if isinstance(screen, JsonScreen):
        print_json(
            {
                "run": result.run_dir,
                "steps": result.steps,
                "seconds": round(result.seconds, 3),
                "before": _point(result.before),
                "after": _point(result.after),
                "episodes": result.num_episodes,
                "action_tokens": result.num_action_tokens,
                "max_mismatch": result.max_mismatch,
                "content_hash": result.content_hash,
            }
        )
        return
    rows = [
        (f"{name} (step {point.step})", interval(point.success, point.low, point.high), point.num_tasks)
        for name, point in (("before", result.before), ("after", result.after))
        if point is not None
    ]
    screen.table(("", "held-out success", "tasks"), rows, title="what was learned")
    screen.say(
        f"cost: {result.seconds:.0f} s, {result.num_episodes:,} episodes, {result.num_action_tokens:,} action tokens"
    )
    if result.max_mismatch is not None:
        screen.say(f"engine and learner agreed to {result.max_mismatch:.1e} nats a token at equal weights")
    screen.say(f"receipts: {result.run_dir} (content hash {result.content_hash[:16]})")
    sql = (
        "SELECT trajectory_id, sum(influence) AS moved FROM receipts WHERE step = "
        f"{result.steps} GROUP BY ALL ORDER BY moved DESC LIMIT 5"
    )
    screen.say(f"next: rollwright why {shlex.quote(result.run_dir)} --step {result.steps}")
    screen.say(f'or: rollwright query {shlex.quote(result.run_dir)} "{sql}"')


def show_evaluation(evaluation: Evaluation, screen: Screen) -> None:
    """Each measure with its interval."""
    if isinstance(screen, JsonScreen):
        for row in evaluation.rows:
            print_json(
                {
                    "metric": row.metric,
                    "labels": dict(row.labels),
                    "value": row.value,
                    "low": row.low,
                    "high": row.high,
                    "tasks": row.num_tasks,
                    "trajectories": row.num_trajectories,
                    "unscored": row.num_unscored,
                }
            )
        return
    title = f"{evaluation.protocol} at step {evaluation.rows[0].step}, {evaluation.num_tasks} tasks"
    rows = [(row.metric, _labels(row), interval(row.value, row.low, row.high)) for row in evaluation.rows]
    screen.table(("metric", "of", "value"), rows, title=title)


def _labels(row: EvaluationRow) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.labels.items())


def _point(point: EvaluationPoint | None) -> dict[str, float | int | None] | None:
    if point is None:
        return None
    return {
        "step": point.step,
        "success": point.success,
        "low": point.low,
        "high": point.high,
        "tasks": point.num_tasks,
    }
