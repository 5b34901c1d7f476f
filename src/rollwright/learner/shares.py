"""Which rows of an update this process differentiates, and which it only scores."""

from dataclasses import dataclass, replace

import numpy as np

from rollwright.algorithms.credit.groups import ZERO_CONTRAST
from rollwright.algorithms.objective import Objective
from rollwright.batches import UpdatePlan
from rollwright.learner.ranks import own_share

__all__ = ["Shares", "shares_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shares:
    """This rank's rows of an update, in two plans with the weights of all rows."""

    trained: UpdatePlan
    quiet: UpdatePlan
    """Rows whose gradient is zero in any case: scored for their receipts, never differentiated."""


def shares_of(plan: UpdatePlan, objective: Objective) -> Shares:
    """Split an update; a function of the plan and the rank alone.

    A row is quiet where its group has no contrast, so that every advantage in it is 0, and nothing acts without one:
    no regularizer, and no surrogate such as a regression on the advantage.

    Args:
        plan: an update with all its rows.
        objective: what is maximised.

    Returns:
        Two plans whose rows together are this rank's.
    """
    acts = bool(objective.regularizers) or objective.acts_without_advantage
    is_quiet = [not acts and _is_quiet(plan, row) for row in plan.rows]
    trained = tuple(row for row, quiet in zip(plan.rows, is_quiet, strict=True) if not quiet)
    quiet = tuple(row for row, quiet in zip(plan.rows, is_quiet, strict=True) if quiet)
    return Shares(trained=own_share(replace(plan, rows=trained)), quiet=own_share(replace(plan, rows=quiet)))


def _is_quiet(plan: UpdatePlan, row: int) -> bool:
    batch = plan.batch
    tokens = slice(int(batch.row_offsets[row]), int(batch.row_offsets[row + 1]))
    return batch.untrained.get(row) == ZERO_CONTRAST and not np.any(batch.advantages[tokens])
