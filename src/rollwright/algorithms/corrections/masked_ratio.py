"""Out-of-band ratios removed, not moved to the bound (M40: masked importance sampling, IcePop)."""

import math
from dataclasses import dataclass

from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import TOKEN_MASK, raise_flag
from rollwright.algorithms.objective import Keep, TokenStreams
from rollwright.algorithms.ratios.token_ratios import Corrected, log_correction

__all__ = ["MaskedRatio", "is_within", "refuse_bad_band"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedRatio:
    """Keep a token where low ≤ ρ ≤ high, ρ of the learner's policy over the engine's: 6 counts 0, never 5.

    It is the `keep` of an objective; with `staleness_ratio` (or a `TruncatedRatio`) as its correction, kept tokens
    weigh ρ and the others nothing. Filtering can delete a capability: watch the masked share by source and length.
    """

    low: float
    """Lower bound of the ratio itself, inclusive; 0 is off."""
    high: float
    """Upper bound of the ratio itself, inclusive; infinity is off."""
    of: Corrected = "proximal"
    """What is divided by behavior. `current` is known only in the update: no denominator can count what it keeps."""

    def __post_init__(self) -> None:
        """Refuse a band that does not hold 1."""
        refuse_bad_band("the band of a masked ratio", self.low, self.high)

    def __call__(self, streams: TokenStreams) -> Keep:
        """Test each action token.

        Args:
            streams: cleaned.

        Returns:
            What stays; the flag of a token mask where an action token goes.
        """
        keep = streams.action_mask & is_within(log_correction(streams, self.of), self.low, self.high)
        return Keep(keep=keep, flags=raise_flag(streams.action_mask & ~keep, TOKEN_MASK))


def is_within(log_ratio: Tensor, low: float, high: float) -> Tensor:
    """bool, True where (n,) log-ratios lie in [log low, log high]: tested before exp, bounds inside (E6)."""
    return (log_ratio >= _log(low)) & (log_ratio <= _log(high))


def refuse_bad_band(what: str, low: float, high: float) -> None:
    """Refuse bounds of a ratio that do not hold 1, the ratio of equal policies."""
    if not 0.0 <= low <= 1.0 <= high:
        raise ObjectiveError(
            f"{what} is [{low}, {high}]; its ends are bounds of the ratio itself and hold 1, such as [0.5, 2]."
        )


def _log(bound: float) -> float:
    return math.log(bound) if bound > 0.0 else -math.inf
