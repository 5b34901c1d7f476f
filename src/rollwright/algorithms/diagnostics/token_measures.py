"""What the metrics of an update are made of: every stream at the trained tokens, gathered once.

Ratios may depend on whole rows, so they are computed on the streams first; a stratum then only selects tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from rollwright.algorithms.masking import LOGPROB_STREAMS, clean_streams
from rollwright.algorithms.objective import Objective, TokenStreams

__all__ = ["Banded", "TokenMeasures", "Truncating", "measure_tokens"]


@runtime_checkable
class Banded(Protocol):
    """A surrogate that clips a ratio: the two-sided clip fraction is taken at its band."""

    @property
    def band(self) -> tuple[float, float]:
        """Lower and upper bound of the ratio itself, as they are now."""
        ...


@runtime_checkable
class Truncating(Protocol):
    """A correction that holds weights down at a cap."""

    def truncated(self, streams: TokenStreams) -> Tensor:
        """(T,) bool, True where the weight would lie above the cap."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenMeasures:
    """The N trained tokens of an update."""

    logprobs: Mapping[str, Tensor]
    """(N,) float64 each, detached, by stream; a score may be missing as a value that is not finite. Streams that were
    given as one tensor are one tensor here."""
    entropy: Tensor | None
    """(N,) nats."""
    is_outside: Tensor | None
    """(N,) bool, the update ratio lies outside the clip's band; None where nothing clips."""
    is_truncated: Tensor | None
    """(N,) bool, the correction was held at its cap; None where none has one."""
    is_kept: Tensor | None
    """(N,) bool, stayed in the numerator."""
    flags: Tensor
    """(N,) int32 bits."""
    lags: Tensor
    """(N,) int64, steps; below 0 where nothing was sampled."""

    def log_ratio(self, above: str, below: str) -> Tensor | None:
        """(N,) log-probability of one stream minus that of another; not finite where one of them is not."""
        upper, lower = self.logprobs.get(above), self.logprobs.get(below)
        return None if upper is None or lower is None else upper - lower


def measure_tokens(
    objective: Objective,
    streams: TokenStreams,
    flags: Tensor,
    *,
    learner_version: int,
    keep: Tensor | None = None,
    band: tuple[float, float] | None = None,
) -> TokenMeasures:
    """Gather what was computed of every trained token.

    Args:
        objective: its ratio, its band and its correction are asked.
        streams: whole rows of the update, (T,) each; nothing outside the action mask is read.
        flags: (T,) int32 bits of the loss.
        learner_version: weights that stood before the update.
        keep: (T,) bool, tokens in the numerator.
        band: bounds of the clip in this update, where a controller has moved them since.

    Returns:
        N values a stream, in the order of the streams.
    """
    mask = streams.action_mask
    places = mask.nonzero().squeeze(1)
    present = frozenset(streams.logprobs) & frozenset(LOGPROB_STREAMS)
    clean = clean_streams(streams, (objective.needs & present) | {"current"}).streams
    is_outside = is_truncated = None
    with torch.no_grad():
        if isinstance(objective.surrogate, Banded):
            low, high = band or objective.surrogate.band
            ratio = objective.ratio(clean)
            is_outside = (clean.action_mask & ((ratio < low) | (ratio > high)))[places]
        if isinstance(objective.correction, Truncating):
            is_truncated = objective.correction.truncated(clean)[places]
    versions = streams.policy_versions[places].to(torch.int64)
    distinct = {id(streams.logprobs[name]): streams.logprobs[name] for name in present}
    gathered = {key: stream[places].detach().to(torch.float64) for key, stream in distinct.items()}
    return TokenMeasures(
        logprobs={name: gathered[id(streams.logprobs[name])] for name in sorted(present)},
        entropy=None if streams.entropy is None else streams.entropy[places].detach().to(torch.float64),
        is_outside=is_outside,
        is_truncated=is_truncated,
        is_kept=None if keep is None else keep[places],
        flags=flags[places],
        lags=torch.where(versions < 0, -1, learner_version - versions),
    )
