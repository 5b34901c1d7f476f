"""Importance weights whose mean over the update is 1 (M46)."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Generator, Tensor

from rollwright.algorithms.corrections.correction import keep_all
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import CorrectionFn, KeepFn, Objective, TokenStreams, UpdateStage
from rollwright.algorithms.rows import row_mean
from rollwright.algorithms.stages import made_by

__all__ = ["SelfNormalized", "self_normalizing"]

_LEAST_MEAN = 1e-8
"""Below it weights are left as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfNormalized:
    """u ← u / mean(u): the size of a step no longer follows how stale its batch is; the weights become biased a little.

    The mean is over all action tokens of the update, after truncation, where a dropped token counts 0: no micro-batch
    can know it, so a stage makes it. Give the objective both: `correction=normalized, stages=(normalized.stage,)`.
    """

    correction: CorrectionFn
    """The weights that are normalised; of proximal over behavior, as no stage knows the current policy."""
    keep: KeepFn = keep_all
    """The objective's own keep: what it drops counts 0 in the mean."""
    over: Literal["token", "row"] = "token"
    """Mean over tokens, or over the means of rows that have one."""
    name: str = "self_normalized"
    """Of the stage."""

    @property
    def stage(self) -> UpdateStage:
        """What makes the weights, once an update."""
        return UpdateStage(name=self.name, make=self._normalize)

    def __call__(self, streams: TokenStreams) -> Tensor:
        """The weights that the stage made.

        Args:
            streams: cleaned, with the stage's stream.

        Returns:
            (T,) detached; 0 at masked tokens.
        """
        return made_by(streams, self.name)

    def truncated(self, streams: TokenStreams) -> Tensor:
        """Which tokens the cap of the weights that are normalised holds down.

        Args:
            streams: cleaned.

        Returns:
            (T,) bool; False everywhere for weights without a cap.
        """
        if isinstance(self.correction, TruncatedRatio):
            return self.correction.truncated(streams)
        return torch.zeros_like(streams.action_mask)

    def _normalize(self, streams: TokenStreams, generator: Generator) -> Tensor:
        del generator
        mask, offsets = streams.action_mask, streams.row_offsets
        weights = torch.where(mask, self.correction(streams).detach(), 0.0)
        counted = torch.where(self.keep(streams).keep, weights, 0.0).to(torch.float64)
        if self.over == "token":
            mean = counted.sum() / mask.sum().clamp(min=1)
        else:
            has_tokens = row_mean(mask.to(torch.float64), mask, offsets) > 0
            mean = row_mean(counted, mask, offsets).sum() / has_tokens.sum().clamp(min=1)
        return (weights / torch.where(mean > _LEAST_MEAN, mean, 1.0)).to(weights.dtype)


def self_normalizing(objective: Objective, *, over: Literal["token", "row"] = "token") -> Objective:
    """The same objective with its correction divided by its mean over each update.

    Args:
        objective: with a correction by proximal over behavior.
        over: how the mean is taken.

    Returns:
        The objective with one more stage.
    """
    if isinstance(objective.correction, SelfNormalized):
        raise ObjectiveError(f"the correction of {objective.name} is normalised already; apply it once.")
    normalized = SelfNormalized(correction=objective.correction, keep=objective.keep, over=over)
    return replace(objective, correction=normalized, stages=(*objective.stages, normalized.stage))
