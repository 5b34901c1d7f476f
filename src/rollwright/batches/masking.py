"""Masks are derived from provenance, never stored: each is a function of who wrote the tokens."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rollwright.record import Segment, is_eligible

__all__ = ["action_mask", "sampled_mask", "tool_mask", "value_mask"]


def action_mask(path: Sequence[Segment], eligible: frozenset[tuple[str, str | None]]) -> NDArray[np.bool_]:
    """Tokens that an objective trains: its (origin, policy) pairs, but for the first token, which nothing predicts.

    Args:
        path: segments from a root to a leaf, P tokens together.
        eligible: (origin, policy) pairs of the objective.

    Returns:
        (P,) bool.
    """
    mask = _spread(path, [is_eligible(segment, eligible) for segment in path])
    mask[:1] = False
    return mask


def value_mask(path: Sequence[Segment], eligible: frozenset[tuple[str, str | None]]) -> NDArray[np.bool_]:
    """Tokens before which a critic's value is read: the trained actions. Values elsewhere are never read (M12).

    Args:
        path: segments from a root to a leaf, P tokens together.
        eligible: (origin, policy) pairs whose actions the critic judges.

    Returns:
        (P,) bool.
    """
    return action_mask(path, eligible)


def sampled_mask(path: Sequence[Segment]) -> NDArray[np.bool_]:
    """Tokens that some model sampled, whichever policy it was: (P,) bool."""
    return _spread(path, [segment.behavior_logprobs is not None for segment in path])


def tool_mask(path: Sequence[Segment]) -> NDArray[np.bool_]:
    """Tokens that a tool wrote: in the context of what follows, in no loss, KL or entropy: (P,) bool."""
    return _spread(path, [segment.origin == "tool" for segment in path])


def _spread(path: Sequence[Segment], answers: Sequence[bool]) -> NDArray[np.bool_]:
    return np.repeat(np.asarray(answers, dtype=np.bool_), [segment.num_tokens for segment in path])
