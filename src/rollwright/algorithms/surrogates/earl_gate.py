"""Only tokens of high entropy are updated: EARL's gate, around any surrogate (the rule of arXiv:2506.01939)."""

from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch import Generator, Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import SELECTED, TOKEN_MASK, raise_flag
from rollwright.algorithms.objective import Surrogate, SurrogateFn, TokenStreams, UpdateStage
from rollwright.algorithms.surrogates.selection import largest_share, made_selection

__all__ = ["EarlGate", "earl_gate_stage", "select_uncertain"]

HIGH_ENTROPY: Final = "high_entropy"


def select_uncertain(streams: TokenStreams, generator: Generator, *, share: float) -> Tensor:
    """The tokens of the highest entropy.

    Args:
        streams: all rows of the update, with entropies.
        generator: not read; equal entropies are taken in order.
        share: of the action tokens, at least one.

    Returns:
        (T,) bool
    """
    del generator
    if streams.entropy is None:
        raise ObjectiveError(
            "the entropy gate reads entropies, but the update has none. Add 'entropy' to the objective's `needs`."
        )
    return largest_share(streams.entropy.detach(), streams.action_mask, share)


def earl_gate_stage(*, share: float) -> UpdateStage:
    """The stage whose choice `EarlGate` lets through; see `select_uncertain`."""
    return UpdateStage(name=HIGH_ENTROPY, make=partial(select_uncertain, share=share))


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlGate:
    """Any surrogate, and nothing outside the tokens that `earl_gate_stage` chose; the denominator stays."""

    surrogate: SurrogateFn

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Take the gradient of tokens that were sure.

        Args:
            ratio: (T,) as the surrogate takes it.
            streams: cleaned; the made stream `high_entropy` (T,) beside what the surrogate reads.

        Returns:
            (T,) to be maximised; flag selected where let through, token mask elsewhere.
        """
        is_chosen = made_selection(streams, HIGH_ENTROPY)
        given = self.surrogate(ratio, streams)
        return Surrogate(
            per_token=torch.where(is_chosen, given.per_token, 0.0),
            flags=torch.where(is_chosen, given.flags | SELECTED, raise_flag(~is_chosen, TOKEN_MASK)),
        )
