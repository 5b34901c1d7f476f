"""Failures that the policy has already left behind are not pushed further (M43: DeepSeek-V3.2, TRL, slime)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import SEQUENCE_MASK, raise_flag
from rollwright.algorithms.objective import Keep, TokenStreams
from rollwright.algorithms.ratios.token_ratios import Corrected, log_correction
from rollwright.algorithms.rows import row_mean, spread_rows

__all__ = ["OffPolicySequenceMask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPolicySequenceMask:
    """Drop tokens of negative advantage in rows whose mean of behavior − learner's log-probability exceeds δ.

    It is a `keep`: staleness and engine mismatch are in the distance together, because it starts at behavior. Rows with
    positive advantage stay however far they are. With one advantage a row it drops whole rows.
    """

    delta: float | None = None
    """δ, nats a token, at least 0; a distance of δ stays."""
    of: Corrected = "proximal"
    """The learner's policy. `proximal`: one mask for all updates of a step, and `kept` can count it. `current`, as
    published: taken anew in every update; no denominator can count what it keeps."""

    def __post_init__(self) -> None:
        """Refuse an undisclosed δ that was left out, and a negative one."""
        delta = chosen("delta", self.delta, undisclosed_by="DeepSeek-V3.2 (off-policy sequence masking)")
        if not delta >= 0.0:
            raise ObjectiveError(f"delta of an off-policy sequence mask is {delta}; it is a distance, at least 0 nats.")

    def __call__(self, streams: TokenStreams) -> Keep:
        """Test each row, and in rows that are too far each token's advantage.

        Args:
            streams: cleaned, with advantages.

        Returns:
            What stays; the flag of a sequence mask where an action token goes.
        """
        is_far = self.mean_distance(streams) > chosen("delta", self.delta, undisclosed_by="DeepSeek-V3.2")
        goes = streams.action_mask & spread_rows(is_far, streams.row_offsets) & (streams.advantages < 0)
        return Keep(keep=streams.action_mask & ~goes, flags=raise_flag(goes, SEQUENCE_MASK))

    def mean_distance(self, streams: TokenStreams) -> Tensor:
        """(rows,) float64 nats, mean of behavior minus the learner's score over action tokens; 0 without one."""
        distance = -log_correction(streams, self.of).to(torch.float64)
        return row_mean(distance, streams.action_mask, streams.row_offsets)
