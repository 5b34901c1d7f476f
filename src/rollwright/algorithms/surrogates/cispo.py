"""Detached, clamped weights on the log-probability: CISPO (M52) and AIPO (M60)."""

from dataclasses import dataclass

from torch import Tensor

from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.flags import CLIPPED_HIGH, CLIPPED_LOW, raise_flag
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.surrogates.bounds import check_band
from rollwright.algorithms.surrogates.likelihood import weigh_logprobs

__all__ = ["Aipo", "Cispo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cispo:
    """sg(clip(ρ))·A·c: every token keeps a gradient, at a weight that is held (MiniMax-M1, arXiv:2506.13585)."""

    low: float = 0.0
    """The least weight itself; 0 is off."""
    high: float | None = None
    """The largest weight itself: 5 for what other projects write as ε = 4. Not disclosed."""

    def __post_init__(self) -> None:
        """Refuse a bound that was left out, and bounds that do not hold 1."""
        check_band("CISPO", self.low, self._high())

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Weigh each token's log-probability.

        Args:
            ratio: (T,); its gradient is not used.
            streams: cleaned; advantages and current log-probabilities (T,).

        Returns:
            (T,) to be maximised; flags clipped high and low say where the weight is held, for either sign.
        """
        high = self._high()
        flags = raise_flag(ratio > high, CLIPPED_HIGH) | raise_flag(ratio < self.low, CLIPPED_LOW)
        return weigh_logprobs(ratio.clamp(min=self.low, max=high) * streams.advantages, flags, streams)

    def _high(self) -> float:
        return chosen("high", self.high, undisclosed_by="MiniMax-M1 (CISPO)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Aipo:
    """sg(min(ρ, C))·A·c with ρ = current/behavior: `bypass_ratio` (LlamaRL, arXiv:2505.24034)."""

    cap: float | None = None
    """C, at least 1; the publication's range is about 2 to 10. Not disclosed."""

    def __post_init__(self) -> None:
        """Refuse a cap that was left out or cuts an unchanged policy."""
        check_band("AIPO", 0.0, self._cap())

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Weigh each token's log-probability.

        Args:
            ratio: (T,) current over behavior; its gradient is not used.
            streams: cleaned; advantages and current log-probabilities (T,).

        Returns:
            (T,) to be maximised; flag clipped high where the weight is held.
        """
        cap = self._cap()
        return weigh_logprobs(ratio.clamp(max=cap) * streams.advantages, raise_flag(ratio > cap, CLIPPED_HIGH), streams)

    def _cap(self) -> float:
        return chosen("cap", self.cap, undisclosed_by="LlamaRL (AIPO)")
