"""Padded [B, T] batches to packed streams and back: the same tokens, and so the same numbers.

A padded batch is a packed stream whose rows all have the width T: padding is one more reason for a token to be masked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rollwright.algorithms.credit.moved_rewards import move_to_actions
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import CreditInputs, TokenStreams

__all__ = ["PaddedBatch", "credit_inputs_from_padded", "from_padded", "streams_from_padded", "to_padded"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PaddedBatch:
    """B rows of T places each, padded on either side or in between; what is left out has the value named there."""

    action_mask: Tensor
    """(B, T) bool, True on the tokens that are trained. What other streams hold elsewhere is never read."""
    rewards: Tensor
    """(B,) verifier units; NaN where unscored."""
    group_index: Tensor
    """(B,) integers; equal values were dispatched together."""
    logprobs: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """(B, T) nats each: behavior, proximal, current, reference, teacher."""
    values: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """(B, T) or (B,) each, as a credit names them."""
    of_rows: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """(B,) each: source_index (0), episode_index (its own number), is_truncated (False); others are `keys`."""
    of_tokens: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """(B, T) each: step_rewards (0), turn_index (0), state_index (-1), policy_versions (-1), entropy (absent)."""

    def __post_init__(self) -> None:
        """Refuse shapes that do not fit the mask, and names that nothing reads."""
        if self.action_mask.ndim != 2 or self.action_mask.dtype != torch.bool:  # noqa: PLR2004 - rows and places
            raise ObjectiveError(
                f"action_mask has shape {tuple(self.action_mask.shape)} and type {self.action_mask.dtype}; a padded "
                "batch has (B, T) bool."
            )
        of_rows = {"rewards": self.rewards, "group_index": self.group_index, **self.of_rows}
        for name, stream in {**of_rows, **self.logprobs, **self.of_tokens, **self.values}.items():
            allowed = [tuple(self.action_mask.shape[:1])] if name in of_rows else [tuple(self.action_mask.shape)]
            if name in self.values:
                allowed = [tuple(self.action_mask.shape[:1]), tuple(self.action_mask.shape)]
            if tuple(stream.shape) not in allowed:
                raise ObjectiveError(
                    f"{name} has shape {tuple(stream.shape)}; beside an action_mask of shape "
                    f"{tuple(self.action_mask.shape)} it has {' or '.join(map(str, allowed))}."
                )
        if self.group_index.is_floating_point() and bool((self.group_index != self.group_index.floor()).any()):
            raise ObjectiveError("group_index has values between whole numbers; groups are whole numbers.")
        if unknown := sorted(self.of_tokens.keys() - _TOKEN_NAMES):
            raise ObjectiveError(f"of_tokens has {unknown}; it may have {sorted(_TOKEN_NAMES)}.")


_TOKEN_NAMES = frozenset({"step_rewards", "turn_index", "state_index", "policy_versions", "entropy"})
_ROW_NAMES = frozenset({"source_index", "episode_index", "is_truncated"})


def credit_inputs_from_padded(batch: PaddedBatch) -> CreditInputs:
    """What credit and weights take: action tokens only, in float64.

    Args:
        batch: B rows. A reward on a place that is not an action moves to the last action token before it, or to the
            first after it; in a row without action tokens it is lost.

    Returns:
        R = B rows, with the N tokens under the mask in the order of rows.
    """
    mask = batch.action_mask
    rows = torch.arange(len(mask), device=mask.device)
    lengths = mask.sum(1)
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    paid = batch.of_tokens.get("step_rewards", torch.zeros(mask.shape, dtype=torch.float64, device=mask.device))
    moved = move_to_actions(paid.reshape(-1).to(torch.float64), mask.reshape(-1), _uniform_offsets(mask))
    return CreditInputs(
        rewards=batch.rewards.to(torch.float64),
        group_index=batch.group_index.to(torch.int64),
        source_index=batch.of_rows.get("source_index", torch.zeros_like(rows)).to(torch.int64),
        episode_index=batch.of_rows.get("episode_index", rows).to(torch.int64),
        row_offsets=offsets,
        is_truncated=batch.of_rows.get("is_truncated", torch.zeros_like(rows)).to(torch.bool),
        step_rewards=moved.step_rewards,
        turn_index=_token(batch, "turn_index", 0)[mask].to(torch.int64),
        state_index=_token(batch, "state_index", -1)[mask].to(torch.int64),
        logprobs={name: stream[mask].detach().to(torch.float64) for name, stream in batch.logprobs.items()},
        values={
            name: (stream[mask] if stream.ndim > 1 else stream).detach().to(torch.float64)
            for name, stream in batch.values.items()
        },
        keys={name: key.to(torch.int64) for name, key in batch.of_rows.items() if name not in _ROW_NAMES},
    )


def streams_from_padded(batch: PaddedBatch, *, advantages: Tensor, token_weights: Tensor) -> TokenStreams:
    """What the loss takes: every place of the batch, row after row, each row of width T.

    Args:
        batch: B rows; the gradient of `logprobs["current"]` reaches the padded tensor.
        advantages: (B, T), or (N,) as credit gives them.
        token_weights: (B, T), or (N,) as a denominator gives them.

    Returns:
        Streams of B·T tokens; critic values are left out.
    """
    mask = batch.action_mask
    entropy = batch.of_tokens.get("entropy")
    return TokenStreams(
        row_offsets=_uniform_offsets(mask),
        action_mask=mask.reshape(-1),
        advantages=_padded(advantages, mask).reshape(-1),
        token_weights=_padded(token_weights, mask).reshape(-1).to(torch.float64),
        policy_versions=_token(batch, "policy_versions", -1).reshape(-1).to(torch.int32),
        logprobs={name: stream.reshape(-1) for name, stream in batch.logprobs.items()},
        values={},
        entropy=None if entropy is None else entropy.reshape(-1),
    )


def to_padded(values: Tensor, action_mask: Tensor) -> Tensor:
    """(B, T) from (N,) values of action tokens, row after row; 0 at every other place.

    Args:
        values: (N,), one for each True of the mask.
        action_mask: (B, T) bool.

    Returns:
        (B, T) in the type of `values`, with gradient.
    """
    if values.shape != (int(action_mask.sum()),):
        raise ObjectiveError(
            f"values have shape {tuple(values.shape)}; the action_mask has {int(action_mask.sum())} action tokens, so "
            "give one value for each."
        )
    return values.new_zeros(action_mask.shape).masked_scatter(action_mask, values)


def from_padded(values: Tensor, action_mask: Tensor) -> Tensor:
    """(N,) from (B, T) values: those of action tokens, row after row.

    Args:
        values: (B, T); what stands outside the mask is not read.
        action_mask: (B, T) bool.

    Returns:
        (N,) in the type of `values`, with gradient.
    """
    if values.shape != action_mask.shape:
        raise ObjectiveError(
            f"values have shape {tuple(values.shape)}; the action_mask has {tuple(action_mask.shape)}, and they match."
        )
    return values[action_mask]


def _padded(values: Tensor, mask: Tensor) -> Tensor:
    return values if values.shape == mask.shape else to_padded(values, mask)


def _token(batch: PaddedBatch, name: str, default: int) -> Tensor:
    return batch.of_tokens.get(name, torch.full(batch.action_mask.shape, default, device=batch.action_mask.device))


def _uniform_offsets(mask: Tensor) -> Tensor:
    return torch.arange(len(mask) + 1, device=mask.device) * mask.shape[1]
