"""The clip on one ratio a row: GSPO (M53)."""

from dataclasses import dataclass

from torch import Tensor

from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.surrogates.bounds import check_band
from rollwright.algorithms.surrogates.clipping import clip_ratio
from rollwright.algorithms.surrogates.row_advantages import RowAdvantage, spread_advantages

__all__ = ["SequenceClip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceClip:
    """min(s·A, clip(s)·A) with s one ratio a row, given to each of its tokens (GSPO, arXiv:2507.18071).

    With `sequence_mean_ratio` and the response mean, a token's gradient is s·A/n, and a row is clipped as a whole. The
    token form (GSPO-token) is `Clip` on `sequence_token_ratio`, which takes an advantage a token.
    """

    low: float = 1.0 - 3e-4
    """Lower bound of the row's ratio itself."""
    high: float = 1.0 + 4e-4
    """Upper bound of the row's ratio itself."""
    advantage: RowAdvantage = "row"

    def __post_init__(self) -> None:
        """Refuse bounds that do not hold 1."""
        check_band("the sequence clip", self.low, self.high)

    @property
    def band(self) -> tuple[float, float]:
        """Lower and upper bound of the row's ratio."""
        return self.low, self.high

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Clip each row by the sign of its advantage.

        Args:
            ratio: (T,) equal at all tokens of a row, with the gradient of current.
            streams: cleaned; advantages (T,).

        Returns:
            (T,) the row's value at each of its tokens, to be maximised; a clipped row has gradient 0 and its flag.
        """
        return clip_ratio(ratio, spread_advantages(streams, self.advantage), self.low, self.high)
