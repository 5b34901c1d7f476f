"""The named rules of a batch: what happens to stale episodes and to tokens drawn from a cut distribution.

The treatment of truncated episodes is a stage around the objective's credit (`algorithms.truncation`).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rollwright.batches.errors import BatchError

__all__ = ["BatchRules", "SegmentScores"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRules:
    """What the planner does where episodes are not plain."""

    max_lag: int
    """Steps; a token of exactly this lag is inside."""
    model: str = "policy"
    """Whose batch this is: policy, or a critic."""
    stale_unit: Literal["trajectory", "segment"] = "trajectory"
    """Over the bound leaves the whole trajectory, by its oldest trained token, or each stale segment alone (M109)."""
    stale_reward: Literal["keep", "drop"] = "keep"
    """Whether the reward of a stale trajectory still counts in its group's statistics."""
    support: Literal["refused", "replayed"] = "refused"
    """Tokens drawn from a cut distribution: refused, or carried to a learner that renormalises over the support."""

    def __post_init__(self) -> None:
        """Refuse a bound that is none."""
        if self.max_lag < 0:
            raise BatchError(f"max_lag is {self.max_lag}; it needs a number of steps, 0 for synchronous training.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SegmentScores:
    """What a model said of the tokens of one segment before the update."""

    trajectory_id: str
    segment: int
    name: str
    """reference, teacher, proximal: nats a token; predicted: values a token; bootstrap: one value, on a leaf."""
    values: NDArray[np.float32]
