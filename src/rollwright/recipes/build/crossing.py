"""Where a run stands when a checkpoint of one segment is gone on with in another.

What belongs to the old conditions is settled or begins anew; all else is carried over: weights, optimizer, counters,
and the place in the order of tasks where the tasks are the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rollwright.algorithms.controllers import states_of
from rollwright.evidence import StoredRun
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.record import LedgerRow, Task, seed_of
from rollwright.runtime.ledger import Ledger, SlotChange
from rollwright.runtime.loop_parts import Stage
from rollwright.runtime.parts import OpenGroup
from rollwright.runtime.progress import Progress
from rollwright.tasks import Mixture, TaskOrder

__all__ = ["carried_over", "settle_open_groups"]

_RULE = "other_tasks"
"""Why a slot that was open at the checkpoint came to its end: its task is none of the segment's."""


def carried_over(progress: Progress, recipe: RecipeConfig, mixture: Mixture, stages: Sequence[Stage]) -> Progress:
    """Where the run stands under the new conditions.

    Args:
        progress: of the checkpoint.
        recipe: of the segment.
        mixture: its tasks.
        stages: its stages.

    Returns:
        The same progress, where tasks, batch and objective are the same.
    """
    if progress.stage >= len(stages) or not progress.stage_step:
        return progress
    stage, collector = stages[progress.stage], progress.collector
    if collector.order is not None:
        order = TaskOrder(mixture, seed=seed_of(recipe.run.seed, "order", stage.name))
        if not order.accepts(collector.order):
            collector = replace(collector, order=order.state(), open_groups=(), owed=None)
    if stage.kind == "rl":
        # A batch counts whole, whatever its size was.
        collector = replace(collector, trained_slots=collector.steps * recipe.rollout.batch_size)
    fresh = states_of(stage.objective)
    controllers = progress.controllers
    if [sorted(one) for one in fresh] != [sorted(one) for one in controllers]:
        controllers = fresh
    return replace(progress, collector=collector, controllers=controllers)


def settle_open_groups(ledger: Ledger, groups: Sequence[OpenGroup], run: StoredRun, *, step: int) -> None:
    """Bring groups that were open at the checkpoint to their end, with the tasks that they were dispatched with.

    Args:
        ledger: as of the checkpoint.
        groups: whose tasks the segment has not.
        run: holds the rows in which they were dispatched.
        step: the next one, whose commit holds the rows.
    """
    rows = {(row.group_id, row.slot): row for row in run.ledger}
    for group in groups:
        ledger.reopen(group.group_id, group.states)
        for slot, state in enumerate(group.states):
            if state in ("in_flight", "ready"):
                ledger.enter(
                    SlotChange(
                        group_id=group.group_id,
                        slot=slot,
                        attempt=group.attempts[slot],
                        state="failed" if state == "in_flight" else "expired",
                        task=_task_of(rows, group.group_id, slot),
                        step=step,
                        policy_version=group.policy_version,
                        rule=_RULE,
                    )
                )
        ledger.close(group.group_id, len(group.states))


def _task_of(rows: Mapping[tuple[int, int], LedgerRow], group_id: int, slot: int) -> Task:
    """As much of a task as the ledger names."""
    row = rows[group_id, slot]
    return Task(task_id=row.task_id, source=row.task_source, revision="", split="train", payload="{}")
