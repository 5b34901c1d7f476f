"""Metrics of steps and updates, made again from stored episodes and scores."""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import cast

from rollwright.batches import batch_metrics, update_metrics
from rollwright.evidence import Finding, LoadedRun
from rollwright.recipes.build.terms import StageTerms
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.rechecking.gradients import RebuiltUpdate
from rollwright.recipes.rechecking.steps import StoredStep
from rollwright.record import Metric

__all__ = ["metric_findings"]

_NOT_STORED = ("entropy", "policy/grad_norm", "policy/lr", "policy/applied", "policy/coef", "explore/")
"""What needs numbers that receipts do not hold: entropies of tokens, gradients, rates."""
_CLOSE = 2e-5
_NOW = datetime(2000, 1, 1, tzinfo=UTC)
_Key = tuple[int, str, tuple[tuple[str, str], ...]]


def metric_findings(
    run: LoadedRun, step: StoredStep, updates: Sequence[RebuiltUpdate], terms: StageTerms, recipe: RecipeConfig
) -> Iterator[Finding]:
    """Where a stored metric is not what the rebuilt batch and updates give.

    Only names that both sides have are compared: a metric that this version does not make says nothing of the run.
    """
    if not updates:
        return
    made: list[Metric] = []
    success_at = recipe.verifier.success_threshold
    made += batch_metrics(updates[0].plan.batch, success_at=success_at, now=_NOW)
    for update in updates:
        if update.has_scores:
            made += update_metrics(update.plan, update.outcome, terms.objective, now=_NOW, success_at=success_at)
    stored = _stored(run, step.step)
    for metric in made:
        if metric.name.startswith(_NOT_STORED):
            continue
        key = (metric.update, metric.name, tuple(sorted(metric.labels.items())))
        if key not in stored:
            continue
        said = stored[key]
        # What cannot be made again was made from what is not stored, such as a reference asked for a metric alone.
        if metric.value is not None and (said is None or not _is_close(said, metric.value)):
            of = f"update {metric.update}" if metric.update else f"step {metric.step}"
            labels = ", ".join(f"{k}={v}" for k, v in key[2])
            yield Finding(
                place=f"metrics {of} {metric.name} {{{labels}}}",
                text=f"{metric.name} is {'undefined' if said is None else f'{said:.9g}'}",
                expected=f"{metric.value:.9g}, made again",
                concern="recipe",
            )


def _stored(run: LoadedRun, step: int) -> dict[_Key, float | None]:
    rows = run.rows(
        f"SELECT update, name, map_keys(labels), map_values(labels), value FROM metrics WHERE step = {step}"
    )
    found: dict[_Key, float | None] = {}
    for update, name, keys, values, value in rows:
        labels = tuple(sorted(zip(cast("list[str]", keys), cast("list[str]", values), strict=True)))
        found[cast("int", update), cast("str", name), labels] = cast("float | None", value)
    return found


def _is_close(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=_CLOSE, abs_tol=1e-6)
