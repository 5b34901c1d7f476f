"""What new weights that arrive in mid-rollout do to it, by the engine's behavior (M110).

In all three the log-probability of a token is the one at which it was sampled.
"""

from dataclasses import dataclass
from typing import Literal

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["Swap", "SwapEffects", "swap_effects"]

Swap = Literal["drain", "continue", "recompute"]
"""Finish under the old weights; go on with the old cache; or make the cache again under the new weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapEffects:
    """Of one swap on one rollout."""

    num_versions: int
    """That wrote its tokens."""
    prefilled_again: int
    """Tokens whose cache is made a second time."""
    cache_matches_weights: bool
    """Whether the cache behind the last token is of the weights that sampled it."""


def swap_effects(swap: Swap, *, prefix: int, generated: int, at: int) -> SwapEffects:
    """Versions, repeated prefill and state of the cache after a swap.

    Args:
        swap: the engine's behavior.
        prefix: tokens before the first generated one.
        generated: tokens of the whole rollout.
        at: tokens that were generated when the weights arrived; from `generated` on nothing happens, and at 0 one
            version writes all while the prefix was read by another.
    """
    if prefix < 0 or generated < 0 or at < 0:
        raise ObjectiveError(f"prefix {prefix}, generated {generated}, at {at}; all are counts of tokens.")
    if swap == "drain" or at >= generated:
        return SwapEffects(num_versions=1, prefilled_again=0, cache_matches_weights=True)
    versions = 1 if at == 0 else 2
    if swap == "continue":
        return SwapEffects(num_versions=versions, prefilled_again=0, cache_matches_weights=prefix + at == 0)
    return SwapEffects(num_versions=versions, prefilled_again=prefix + at, cache_matches_weights=True)
