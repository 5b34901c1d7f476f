"""Likelihood of the attempts that succeeded, as a term beside the policy gradient (M92)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.masking import stream_of
from rollwright.algorithms.objective import Counting, CreditInputs, Regularizer, RowLengths, TokenStreams

__all__ = ["SuccessfulTokenMean", "negative_log_likelihood", "positive_nll"]


def negative_log_likelihood(streams: TokenStreams) -> Tensor:
    """−c of every action token.

    Args:
        streams: cleaned, with current.

    Returns:
        (T,) nats with gradient; 0 at masked tokens.
    """
    return -stream_of(streams, "current")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessfulTokenMean:
    """Every action token of a successful row weighs 1/N⁺, N⁺ counting them over the update; all others weigh 0."""

    threshold: float = 1.0
    """Reward from which a row is a success, verifier units."""

    def __post_init__(self) -> None:
        """Refuse a threshold that nothing is compared with."""
        if self.threshold != self.threshold:
            raise ObjectiveError("the threshold of a success is NaN; give the reward from which a row is one.")

    @property
    def name(self) -> str:
        """The name in recipes and receipts."""
        return "successful_token_mean"

    @property
    def counting(self) -> Counting:
        """Corrections do not cut likelihood."""
        return "structural"

    def __call__(self, inputs: CreditInputs, keep: Tensor | None) -> Tensor:
        """(N,) float64: 1/N⁺ in rows whose reward reaches the threshold; an unscored row is none."""
        if keep is not None:
            raise ObjectiveError(f"{self.name} counts structural tokens but was given a keep mask; pass None.")
        lengths = inputs.row_offsets.diff()
        is_success = (inputs.rewards >= self.threshold) & (lengths > 0)
        per_token = is_success.repeat_interleave(lengths).to(torch.float64)
        return per_token / per_token.sum().clamp(min=1.0)

    def weight_sum(self, rows: RowLengths) -> float:
        """1, or 0 without a successful token."""
        return 1.0 if self._num_tokens(rows) else 0.0

    def denominator(self, rows: RowLengths) -> float:
        """N⁺, tokens of successful rows."""
        return float(self._num_tokens(rows))

    def _num_tokens(self, rows: RowLengths) -> int:
        return int(rows.num_tokens[rows.rewards >= self.threshold].sum())


def positive_nll(*, coefficient: float = 0.1, threshold: float = 1.0) -> Regularizer:
    """L += μ·NLL over the action tokens of successful rows (arXiv:2504.05118, μ = 0.1; Seed1.5 does not give its μ).

    Args:
        coefficient: μ.
        threshold: reward from which a row is a success, verifier units.

    Returns:
        The term `positive_nll`; its gradient reaches successful rows alone, and without one it is 0.
    """
    return Regularizer(
        component="positive_nll",
        coefficient=coefficient,
        per_token=negative_log_likelihood,
        weights=SuccessfulTokenMean(threshold=threshold),
    )
