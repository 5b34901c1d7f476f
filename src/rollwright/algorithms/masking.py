"""Make a piece safe to compute on: what is under a mask cannot reach a value or a gradient.

Every part of an objective gets streams that were cleaned here, so none has to guard itself: outside the mask, and
where any stream that the objective reads is not finite, all streams are 0 and carry no gradient. The zero is put in
before any operation, because a mask after it leaves a NaN gradient.
"""

from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import TokenStreams

__all__ = ["LOGPROB_STREAMS", "CleanStreams", "clean_streams", "stream_of"]

LOGPROB_STREAMS: Final = ("behavior", "proximal", "current", "reference", "teacher")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CleanStreams:
    """Streams that any part of an objective may compute on."""

    streams: TokenStreams
    """Its action mask leaves out non-finite tokens."""
    non_finite: Tensor
    """(T,) bool, action tokens whose needed streams are not all finite: they weigh 0 and stay in the denominator."""


def clean_streams(streams: TokenStreams, reads: frozenset[str]) -> CleanStreams:
    """Put 0 wherever a stream must not be read, and drop the streams that the objective did not ask for.

    Args:
        streams: a piece as the learner made it; (T,) each, anything outside the action mask.
        reads: what the objective reads: log-probability streams by name, `values`, `entropy`.

    Returns:
        The safe streams; gradients reach `current` (and `values`, `entropy`) at usable tokens only.
    """
    read = {name: stream_of(streams, name) for name in LOGPROB_STREAMS if name in reads}
    is_finite = streams.advantages.isfinite()
    values: dict[str, Tensor] = dict(streams.values) if "values" in reads else {}
    checked = [*read.values(), *values.values()]
    if streams.entropy is not None and "entropy" in reads:
        checked.append(streams.entropy)
    for stream in checked:
        is_finite = is_finite & stream.isfinite()
    mask = streams.action_mask & is_finite
    return CleanStreams(
        streams=replace(
            streams,
            action_mask=mask,
            advantages=torch.where(mask, streams.advantages.detach(), 0.0),
            token_weights=torch.where(mask, streams.token_weights, 0.0),
            logprobs={name: _under(mask, stream, name) for name, stream in read.items()},
            values={name: torch.where(mask, stream, 0.0) for name, stream in values.items()},
            entropy=None if streams.entropy is None else torch.where(mask, streams.entropy, 0.0),
            made={name: torch.where(mask, s.detach(), torch.zeros_like(s)) for name, s in streams.made.items()},
        ),
        non_finite=streams.action_mask & ~is_finite,
    )


def stream_of(streams: TokenStreams, name: str) -> Tensor:
    """The (T,) log-probabilities of this name; refuses an objective that did not ask for them."""
    found = streams.logprobs.get(name)
    if found is None:
        raise ObjectiveError(
            f"the objective reads {name}_logprobs, but the piece has {sorted(streams.logprobs)}. "
            f"Add {name!r} to the objective's `needs`."
        )
    return found


def _under(mask: Tensor, stream: Tensor, name: str) -> Tensor:
    """Only the current policy is differentiated."""
    return torch.where(mask, stream if name == "current" else stream.detach(), 0.0)
