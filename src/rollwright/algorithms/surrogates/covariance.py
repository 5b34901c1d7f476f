"""Tokens whose advantage and log-probability rise together: Clip-Cov and KL-Cov (M57, M58, arXiv:2505.22617).

Such tokens drive the entropy down. They are chosen on the whole update before its first gradient, by an update stage,
so that how the update is cut changes nothing; the surrogates read the choice from `streams.made`.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch import Generator, Tensor

from rollwright.algorithms.controllers import coefficient_of
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import SELECTED, raise_flag
from rollwright.algorithms.masking import stream_of
from rollwright.algorithms.objective import Surrogate, TokenStreams, UpdateStage
from rollwright.algorithms.surrogates.bounds import Bound, check_band
from rollwright.algorithms.surrogates.clipping import clip_ratio
from rollwright.algorithms.surrogates.selection import largest_share, made_selection, number_selected

__all__ = ["ClipCov", "KlCov", "clip_cov_stage", "covariances", "kl_cov_stage", "select_between", "select_largest"]

CLIP_COV: Final = "clip_cov"
KL_COV: Final = "kl_cov"


def covariances(advantages: Tensor, logprobs: Tensor, mask: Tensor) -> Tensor:
    """(A − mean A)·(c − mean c) of each token, means over the mask.

    Args:
        advantages: (T,)
        logprobs: (T,) nats.
        mask: (T,) bool.

    Returns:
        (T,) float64, reward·nat; 0 outside the mask, and everywhere where it holds nothing.
    """
    count = mask.sum().clamp(min=1)

    def centered(values: Tensor) -> Tensor:
        known = torch.where(mask, values.detach().to(torch.float64), 0.0)
        return known - known.sum() / count

    return torch.where(mask, centered(advantages) * centered(logprobs), 0.0)


def select_between(
    streams: TokenStreams, generator: Generator, *, share: float = 2e-4, low: float = 1.0, high: float = 5.0
) -> Tensor:
    """Draw tokens with a covariance strictly between two bounds (Clip-Cov).

    Args:
        streams: all rows of the update, with proximal scores: before its first gradient no token is clipped yet.
        generator: the draw; seeded by the update, so that it repeats.
        share: of the action tokens that may be drawn, at least one.
        low: of the covariance, reward·nat.
        high: of the covariance, reward·nat.

    Returns:
        (T,) bool; as many as there are where fewer lie between the bounds.
    """
    found = covariances(streams.advantages, stream_of(streams, "proximal"), streams.action_mask)
    candidates = (streams.action_mask & (found > low) & (found < high)).nonzero().flatten()
    order = torch.randperm(len(candidates), generator=generator, device=generator.device).to(candidates.device)
    drawn = candidates[order[: number_selected(streams.action_mask, share)]]
    return torch.zeros_like(streams.action_mask).index_fill(0, drawn, True)  # noqa: FBT003 - what is filled


def select_largest(streams: TokenStreams, generator: Generator, *, share: float = 2e-4) -> Tensor:
    """The tokens of the largest covariance (KL-Cov).

    Args:
        streams: all rows of the update, with proximal scores.
        generator: not read; equal covariances are taken in order.
        share: of the action tokens, at least one.

    Returns:
        (T,) bool
    """
    del generator
    found = covariances(streams.advantages, stream_of(streams, "proximal"), streams.action_mask)
    return largest_share(found, streams.action_mask, share)


def clip_cov_stage(*, share: float = 2e-4, low: float = 1.0, high: float = 5.0) -> UpdateStage:
    """The stage whose choice `ClipCov` detaches; see `select_between`."""
    if not low < high:
        raise ObjectiveError(f"Clip-Cov draws between covariances {low} and {high}; the lower comes first.")
    return UpdateStage(name=CLIP_COV, make=partial(select_between, share=share, low=low, high=high))


def kl_cov_stage(*, share: float = 2e-4) -> UpdateStage:
    """The stage whose choice `KlCov` penalises; see `select_largest`."""
    return UpdateStage(name=KL_COV, make=partial(select_largest, share=share))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipCov:
    """PPO's clip, and nothing for the tokens that `clip_cov_stage` drew."""

    low: float = 0.8
    """Lower bound of the ratio itself."""
    high: Bound = 1.2
    """Upper bound of the ratio itself."""

    def __post_init__(self) -> None:
        """Refuse bounds that do not hold 1."""
        check_band("the clip", self.low, self.high)

    @property
    def band(self) -> tuple[float, float]:
        """Lower and upper bound of the ratio as they are now."""
        return self.low, coefficient_of(self.high)

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Clip each token, and take the gradient of the chosen ones.

        Args:
            ratio: (T,) with the gradient of current.
            streams: cleaned; advantages and the made stream `clip_cov` (T,).

        Returns:
            (T,) to be maximised; flags clipped high and low, and selected where detached.
        """
        is_drawn = made_selection(streams, CLIP_COV)
        low, high = self.band
        clipped = clip_ratio(ratio, streams.advantages, low, high)
        return Surrogate(
            per_token=torch.where(is_drawn, 0.0, clipped.per_token),
            flags=clipped.flags | raise_flag(is_drawn, SELECTED),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KlCov:
    """ρA without a clip, less β·|c − o| on the tokens that `kl_cov_stage` chose.

    Tokens without advantage may be chosen too: such an objective has `acts_without_advantage`.
    """

    coefficient: float = 1.0
    """β, reward per nat."""

    def __post_init__(self) -> None:
        """Refuse a reward for moving."""
        if not self.coefficient >= 0.0:
            raise ObjectiveError(f"KL-Cov has coefficient = {self.coefficient}; it is at least 0.")

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Penalise the chosen tokens.

        Args:
            ratio: (T,) with the gradient of current.
            streams: cleaned; advantages and the made stream `kl_cov` (T,).

        Returns:
            (T,) to be maximised; flag selected where penalised.
        """
        is_chosen = made_selection(streams, KL_COV)
        penalty = torch.where(is_chosen, self.coefficient * ratio.log().abs(), 0.0)
        return Surrogate(per_token=ratio * streams.advantages - penalty, flags=raise_flag(is_chosen, SELECTED))
