"""One step: what it weighed, which episodes moved it most, and what it wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rollwright.evidence import Commit
from rollwright.evidence.following import Look, Row
from rollwright.viewer.page.errors import NotFoundError

__all__ = ["StepPage", "read_step"]

_MOST: Final = 50
_WITHHELD: Final = (
    "SELECT component, untrained_reason, count(DISTINCT trajectory_id) AS episodes, sum(num_eligible) AS tokens "
    "FROM {receipts} WHERE step = $step AND untrained_reason IS NOT NULL GROUP BY ALL ORDER BY ALL"
)
_METRICS: Final = (
    "SELECT name, labels, unit, update, value, num_items FROM {metrics} WHERE step = $step "
    "ORDER BY name, labels::TEXT, update LIMIT 2000"
)
_EVALUATIONS: Final = (
    "SELECT * FROM {evaluations} WHERE step = $step ORDER BY evaluation, metric, labels::TEXT LIMIT 500"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPage:
    """A step with its receipts."""

    step: int
    stage: str | None
    components: tuple[Row, ...]
    """A row an update, model and component: counts, sums of weight, loss and influence."""
    component: str
    """Of which `moved` is told."""
    moved: tuple[Row, ...]
    """Episodes by influence, the largest first."""
    num_moved: int
    withheld: tuple[Row, ...]
    metrics: tuple[Row, ...]
    evaluations: tuple[Row, ...]
    previous: int | None
    following: int | None


def read_step(look: Look, step: int, component: str | None) -> StepPage:
    """A step of a run.

    Raises:
        NotFoundError: when no commit is of this step.
    """
    commits = look.of_step(step)
    if not commits:
        raise NotFoundError(f"this run has no step {step}; its newest is {look.last_step}.")
    components = look.ask(
        "SELECT update, model, component, count(*) AS segments, count(DISTINCT trajectory_id) AS episodes, "
        "sum(num_eligible) AS eligible, sum(num_kept) AS kept, max(lag) AS lag, sum(loss) AS loss, "
        "sum(influence) AS influence, sum(list_sum(expand(token_weight))) AS weight, "
        "max(max_log_ratio) AS max_log_ratio FROM {receipts} WHERE step = $step GROUP BY ALL ORDER BY ALL",
        {"step": step},
        commits=commits,
    )
    known = list(dict.fromkeys(str(row["component"]) for row in components))
    chosen = component if component in known else next(iter(known), "policy_gradient")
    moved = _moved(look, step, chosen)
    steps = sorted({c.step for c in look.commits})
    at = steps.index(step)
    return StepPage(
        step=step,
        stage=next((str(row["stage"]) for row in moved if row["stage"]), None),
        components=tuple(components),
        component=chosen,
        moved=tuple(moved[:_MOST]),
        num_moved=len({row["trajectory_id"] for row in moved}) if len(moved) < 10 * _MOST else 10 * _MOST,
        withheld=tuple(look.ask(_WITHHELD, {"step": step}, commits=commits)),
        metrics=tuple(look.ask(_METRICS, {"step": step}, commits=commits)),
        evaluations=tuple(look.ask(_EVALUATIONS, {"step": step}, commits=commits)),
        previous=steps[at - 1] if at > 0 else None,
        following=steps[at + 1] if at + 1 < len(steps) else None,
    )


def _moved(look: Look, step: int, component: str) -> list[Row]:
    """Episodes by how much they moved a step, with why: reward, group mean, what was cut."""
    rows = look.ask(
        "SELECT trajectory_id, sum(influence) AS moved, sum(influence) / nullif(sum(sum(influence)) OVER (), 0) "
        "AS share, "
        "max(lag) AS lag, 1 - sum(num_kept) / nullif(sum(num_eligible), 0) AS share_cut, sum(num_eligible) AS tokens, "
        "max(untrained_reason) AS untrained_reason, any_value(model) AS model "
        "FROM {receipts} WHERE step = $step AND component = $component "
        f"GROUP BY trajectory_id ORDER BY moved DESC, trajectory_id LIMIT {10 * _MOST}",
        {"step": step, "component": component},
        commits=look.of_step(step),
    )
    names = [row["trajectory_id"] for row in rows[:_MOST]]
    lag = max((int(row["lag"]) for row in rows), default=0)
    holding = [c for c in look.holding("trajectories") if c.step <= step]
    # Episodes are recorded as they end: with their step, or as much earlier as their oldest token.
    heads = _heads(look, names, [c for c in holding if c.step >= step - lag])
    if len(heads) < len(names):
        heads = _heads(look, names, holding)
    nothing: Row = dict.fromkeys(
        (
            "stage",
            "group_id",
            "purpose",
            "task_id",
            "task_source",
            "terminal_reason",
            "reward",
            "unscored_reason",
            "group_mean",
        )
    )
    return [{**nothing, **heads.get(row["trajectory_id"], {}), **row} for row in rows]


def _heads(look: Look, names: Sequence[str], commits: Sequence[Commit]) -> dict[str, Row]:
    """Of each episode what became of it, with the mean of its group, as these commits hold them."""
    if not names:
        return {}
    found = look.ask(
        "WITH heads AS (SELECT trajectory_id, stage, group_id, purpose, task_id, task_source, terminal_reason, reward, "
        "unscored_reason FROM {trajectories}) "
        "SELECT *, avg(reward) OVER (PARTITION BY purpose, group_id) AS group_mean FROM heads WHERE group_id IN "
        "(SELECT group_id FROM heads WHERE list_contains($names, trajectory_id)) "
        "QUALIFY list_contains($names, trajectory_id)",
        {"names": list(names)},
        commits=commits,
    )
    return {row["trajectory_id"]: row for row in found}
