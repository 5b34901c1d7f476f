"""Rows small enough to work out by hand, and a piece of them under an objective."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rollwright.algorithms import Credit, CreditInputs, Objective, TokenStreams, loss_terms
from rollwright.algorithms.objective import WeightFn
from rollwright.algorithms.trial import scatter

__all__ = ["Piece", "Rewrite", "Row", "inputs_of", "piece_of", "unchanged"]

Rewrite = Callable[[WeightFn], Callable[[CreditInputs, Tensor | None], Tensor]]
"""What a fault makes of a denominator."""


def unchanged(rule: WeightFn) -> WeightFn:
    """The denominator itself."""
    return rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One episode: how long its spans of actions are, with an observation of two tokens between them."""

    reward: float
    group: int = 0
    spans: tuple[int, ...] = (3,)
    is_truncated: bool = False

    @property
    def num_actions(self) -> int:
        """Tokens that the policy sampled."""
        return sum(self.spans)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """Rows under an objective, with a loss and its gradient."""

    loss: float
    gradient: Tensor
    """(T,) in the scores of the current policy."""
    is_action: Tensor
    """(T,) bool."""
    credit: Credit
    correction: Tensor
    """(T,) weight of proximal over behavior."""


def inputs_of(rows: Sequence[Row]) -> CreditInputs:
    """What credit sees of rows."""
    lengths = [row.num_actions for row in rows]
    num_tokens = sum(lengths)
    return CreditInputs(
        rewards=torch.tensor([row.reward for row in rows], dtype=torch.float64),
        group_index=torch.tensor([row.group for row in rows]),
        source_index=torch.zeros(len(rows), dtype=torch.int64),
        episode_index=torch.arange(len(rows)),
        row_offsets=torch.tensor([0, *lengths]).cumsum(0),
        is_truncated=torch.tensor([row.is_truncated for row in rows]),
        step_rewards=torch.zeros(num_tokens, dtype=torch.float64),
        turn_index=torch.zeros(num_tokens, dtype=torch.int64),
        state_index=torch.full((num_tokens,), -1, dtype=torch.int64),
        logprobs={},
        values={},
    )


def piece_of(
    objective: Objective, rows: Sequence[Row], rewrite: Rewrite = unchanged, *, moved: float = 0.0, padding: int = 0
) -> Piece:
    """Credit, weights, loss and gradient of rows laid out with a prompt of two tokens each.

    Args:
        objective: without stages, critic or teacher.
        rows: at least one.
        rewrite: what is done to the denominator.
        moved: nats by which the current policy differs from that which sampled, by turns up and down.
        padding: tokens behind each row.
    """
    inputs = inputs_of(rows)
    credit = objective.credit(inputs)
    layout = [_is_action(row, padding) for row in rows]
    is_action = torch.tensor([one for row in layout for one in row])
    offsets = torch.tensor([0, *(len(row) for row in layout)]).cumsum(0)
    place = torch.arange(int(inputs.row_offsets[-1]))
    # Scores by the place of an action in all actions, so that gaps and padding change none of them.
    sampled = scatter(-0.5 - 0.1 * (place % 7).to(torch.float64), is_action)
    step = moved * (1.0 - 2.0 * (place % 2).to(torch.float64))
    current = (sampled + scatter(step, is_action)).requires_grad_()
    streams = TokenStreams(
        row_offsets=offsets,
        action_mask=is_action,
        advantages=scatter(credit.advantages, is_action),
        token_weights=scatter(rewrite(objective.weights)(inputs, None), is_action),
        policy_versions=torch.where(is_action, 0, -1).to(torch.int32),
        logprobs={"behavior": sampled, "proximal": sampled, "current": current},
        values={},
    )
    terms = loss_terms(replace(objective, regularizers=()), streams, {})
    (gradient,) = torch.autograd.grad(terms.loss, current)
    return Piece(
        loss=float(terms.loss.detach()),
        gradient=gradient,
        is_action=is_action,
        credit=credit,
        correction=terms.correction,
    )


def _is_action(row: Row, padding: int) -> list[bool]:
    found = [False, False]
    for place, span in enumerate(row.spans):
        found += ([False, False] if place else []) + [True] * span
    return found + [False] * padding
