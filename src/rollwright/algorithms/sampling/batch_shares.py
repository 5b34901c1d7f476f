"""How a batch is divided between fresh rollouts and stored or carried ones (M104, M113)."""

import math
from dataclasses import dataclass

from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError

__all__ = ["BatchShare", "replay_share", "streaming_share"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShare:
    """Rollouts of a batch by where they come from."""

    fresh: int
    """Completed by the newest policy."""
    other: int
    """Replayed from a pool, or continued from snapshots of older policies."""


def replay_share(batch: int, *, pool: int, fraction: float | None = None) -> BatchShare:
    """min(⌊fraction·batch⌋, pool) stored successes, fresh rollouts for the rest.

    A stored rollout needs the log-probabilities of the policy that sampled it, a bound on its age, a correction of its
    ratio, and a group of its own: it never stands in the baseline of fresh attempts.

    Args:
        batch: rollouts of the batch.
        pool: stored rollouts that are young enough; fewer than asked for are made up by fresh ones.
        fraction: of the batch, in [0, 1].
    """
    wanted = _part(batch, chosen("fraction", fraction, undisclosed_by="RLEP and RePO"))
    other = min(wanted, max(pool, 0))
    return BatchShare(fresh=batch - other, other=other)


def streaming_share(batch: int, *, on_policy: float) -> BatchShare:
    """⌈on_policy·batch⌉ rollouts by the newest policy, the rest continued from snapshots (Seed1.5-Thinking).

    Args:
        batch: rollouts of the batch.
        on_policy: α in [0, 1].
    """
    carried = _part(batch, 1.0 - on_policy)
    return BatchShare(fresh=batch - carried, other=carried)


def _part(batch: int, fraction: float) -> int:
    if batch < 0 or not 0 <= fraction <= 1:
        raise ObjectiveError(f"a fraction of {fraction} of {batch} rollouts; fractions lie between 0 and 1.")
    # Rounded first: 0.29 · 100 is 28.999999999999996 and must not become 28.
    return math.floor(round(fraction * batch, 9))
