"""The entropy bonus as a term of the loss (M85)."""

from torch import Tensor

from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Controller, Regularizer, TokenStreams

__all__ = ["entropy_bonus", "entropy_regularizer"]


def entropy_bonus(streams: TokenStreams) -> Tensor:
    """−H of each token's distribution: what is minimised so that entropy rises.

    Args:
        streams: cleaned, with entropy over the full vocabulary at the temperature of the row (`needs` has entropy).

    Returns:
        (T,) nats, at most 0, with gradient; 0 at masked tokens.
    """
    if streams.entropy is None:
        raise ObjectiveError(
            "the entropy bonus reads entropy, but the piece has none; add 'entropy' to the objective's `needs`."
        )
    return -streams.entropy


def entropy_regularizer(coefficient: float | Controller) -> Regularizer:
    """L −= α·mean H, always over all tokens alike, whatever the policy term is divided by (public code: TRL).

    Args:
        coefficient: α, or what controls it, such as `MagicEntropy`.

    Returns:
        The term `entropy`; it needs the stream `entropy`.
    """
    return Regularizer(component="entropy", coefficient=coefficient, per_token=entropy_bonus, weights=TokenMean())
