"""The end of a command on the screen: what was learned, what it cost, what to try next."""

from collections.abc import Mapping

from rich.table import Table

from rollwright.cli.screen import JsonScreen, Screen, interval, print_json
from rollwright.recipes.flat import Plain, flatten
from rollwright.recipes.runs import TrainResult
from rollwright.runtime.progress import EvaluationPoint

__all__ = ["show_resolved", "show_result"]


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
                "max_mismatch": result.max_mismatch,
                "content_hash": result.content_hash,
            }
        )
        return
    table = Table("", "held-out success", "tasks", title="what was learned", title_justify="left")
    for name, point in (("before", result.before), ("after", result.after)):
        if point is not None:
            table.add_row(
                f"{name} (step {point.step})", interval(point.success, point.low, point.high), str(point.num_tasks)
            )
    screen.table(table)
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
    screen.say(f'next: rollwright query {result.run_dir} "{sql}"')


def show_resolved(values: Mapping[str, Plain], origins: Mapping[str, str], screen: Screen) -> None:
    """Each resolved value with its origin."""
    flat = dict(flatten(values))
    if isinstance(screen, JsonScreen):
        for key, value in flat.items():
            print_json({"key": key, "value": value, "origin": origins.get(key, "default")})
        return
    table = Table("key", "value", "origin")
    for key, value in flat.items():
        table.add_row(key, repr(value), origins.get(key, "default"))
    screen.table(table)


def _point(point: EvaluationPoint | None) -> dict[str, float | int] | None:
    if point is None:
        return None
    return {
        "step": point.step,
        "success": point.success,
        "low": point.low,
        "high": point.high,
        "tasks": point.num_tasks,
    }

