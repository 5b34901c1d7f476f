"""Refuse a composition that means nothing, before anything is trained with it.

What cannot be seen in the fields is tried on a tiny batch: a stream that is read but not asked for, weights that do
not sum to their closed form, a policy that is unchanged and yet has a ratio, a group size without any contrast.
"""

from dataclasses import replace

import torch
from torch import Tensor

from rollwright.algorithms.composition import kept_tokens, loss_terms
from rollwright.algorithms.denominators import row_lengths
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.masking import LOGPROB_STREAMS
from rollwright.algorithms.objective import Credit, CreditInputs, Objective, TokenStreams, WeightFn

__all__ = ["check_objective"]

_NEEDS = frozenset({"behavior", "proximal", "reference", "teacher", "values", "entropy"})
_ROW_TOKENS = 3


def check_objective(objective: Objective, *, group_size: int) -> None:
    """Refuse a composition that cannot be trained, with what to change.

    Args:
        objective: the composition.
        group_size: attempts at one task in every full group of the run.
    """
    if unknown := objective.needs - _NEEDS:
        raise ObjectiveError(f"{objective.name} needs {sorted(unknown)}; an objective may need {sorted(_NEEDS)}.")
    _check_components(objective)
    inputs = _trial_inputs(group_size)
    credit = objective.credit(inputs)
    _check_credit(objective, credit, inputs, group_size)
    streams = _trial_streams(objective, credit.advantages)
    keep = kept_tokens(objective, streams).keep[streams.action_mask]
    weights = {objective.component: _trial_weights(objective.weights, inputs, keep)}
    for regularizer in objective.regularizers:
        weights[regularizer.component] = _trial_weights(regularizer.weights, inputs, keep)
    _check_loss(objective, streams, {name: _scatter(weight, streams) for name, weight in weights.items()})


def _check_components(objective: Objective) -> None:
    components = [objective.component, *(one.component for one in objective.regularizers)]
    if len(set(components)) < len(components):
        raise ObjectiveError(f"{objective.name} has components {components}; each name may stand once.")
    rules = [objective.weights, *(one.weights for one in objective.regularizers)]
    if any(rule.counting == "kept" for rule in rules) and "proximal" not in objective.needs:
        raise ObjectiveError(
            f"{objective.name} counts kept tokens without proximal scores: in bypass mode what is kept is known only "
            "after the weights are made. Count `structural` tokens, or score the proximal policy."
        )


def _check_credit(objective: Objective, credit: Credit, inputs: CreditInputs, group_size: int) -> None:
    num_tokens = int(inputs.row_offsets[-1])
    if credit.advantages.shape != (num_tokens,):
        raise ObjectiveError(
            f"the credit of {objective.name} gave shape {tuple(credit.advantages.shape)} for {num_tokens} action "
            "tokens; give one advantage a token."
        )
    if not bool(credit.advantages.any()):
        raise ObjectiveError(
            f"{objective.name} gives no advantage in groups of {group_size} with distinct rewards: nothing would ever "
            "be trained. Credit that compares attempts needs a group of at least 2."
        )


def _check_loss(objective: Objective, streams: TokenStreams, weights: dict[str, Tensor]) -> None:
    found = loss_terms(objective, replace(streams, token_weights=weights[objective.component]), weights)
    if bool((found.ratio != 1).any()):
        raise ObjectiveError(f"the ratio of {objective.name} is not 1 for an unchanged policy.")
    current = streams.logprobs["current"]
    total = found.terms[objective.component].sum()
    gradient = torch.autograd.grad(total, current, allow_unused=True)[0] if total.requires_grad else None
    if gradient is None or not bool(gradient.any()):
        raise ObjectiveError(
            f"the surrogate of {objective.name} has no gradient on an unchanged policy; a surrogate of the ratio needs "
            "a ratio that has one, such as token_ratio."
        )
    if not bool(gradient.isfinite().all()):
        raise ObjectiveError(f"the gradient of {objective.name} is not finite on an unchanged policy.")


def _trial_weights(rule: WeightFn, inputs: CreditInputs, keep: Tensor) -> Tensor:
    counted = keep if rule.counting == "kept" else None
    weights = rule(inputs, counted)
    due = rule.weight_sum(row_lengths(inputs, counted))
    if weights.shape != keep.shape or abs(float(weights.sum()) - due) > 1e-9 * max(1.0, abs(due)):
        raise ObjectiveError(
            f"the weights of {rule.name} have shape {tuple(weights.shape)} and sum {float(weights.sum())}; the closed "
            f"form says {tuple(keep.shape)} and {due}."
        )
    return weights


def _trial_inputs(group_size: int) -> CreditInputs:
    """Two full groups with distinct rewards, three action tokens a row."""
    num_rows = 2 * group_size
    rows = torch.arange(num_rows)
    num_tokens = _ROW_TOKENS * num_rows
    return CreditInputs(
        rewards=1.0 + rows.to(torch.float64),
        group_index=rows // group_size,
        source_index=torch.zeros_like(rows),
        episode_index=rows,
        row_offsets=torch.arange(num_rows + 1) * _ROW_TOKENS,
        is_truncated=torch.zeros(num_rows, dtype=torch.bool),
        step_rewards=torch.zeros(num_tokens, dtype=torch.float64),
        turn_index=torch.zeros(num_tokens, dtype=torch.int64),
        state_index=torch.full((num_tokens,), -1),
        logprobs={name: torch.full((num_tokens,), -1.0, dtype=torch.float64) for name in LOGPROB_STREAMS},
        values={
            "predicted": torch.zeros(num_tokens, dtype=torch.float64),
            "bootstrap": torch.zeros(num_rows, dtype=torch.float64),
        },
    )


def _trial_streams(objective: Objective, advantages: Tensor) -> TokenStreams:
    """Rows of one prompt token and three action tokens, under an unchanged policy, with the needed streams only."""
    num_rows = len(advantages) // _ROW_TOKENS
    is_action = (torch.arange(num_rows * (_ROW_TOKENS + 1)) % (_ROW_TOKENS + 1)) > 0
    scores = torch.where(is_action, -1.0, torch.nan)
    names = [name for name in LOGPROB_STREAMS if name in objective.needs and name != "current"]
    needs_values = "values" in objective.needs
    return TokenStreams(
        row_offsets=torch.arange(num_rows + 1) * (_ROW_TOKENS + 1),
        action_mask=is_action,
        advantages=torch.zeros(len(is_action), dtype=torch.float64).masked_scatter(is_action, advantages),
        token_weights=torch.zeros(len(is_action), dtype=torch.float64),
        policy_versions=torch.zeros(len(is_action), dtype=torch.int32),
        logprobs={**dict.fromkeys(names, scores), "current": scores.clone().requires_grad_()},
        values=dict.fromkeys(("current", "previous", "target"), scores) if needs_values else {},
        entropy=torch.where(is_action, 1.0, torch.nan) if "entropy" in objective.needs else None,
    )


def _scatter(weights: Tensor, streams: TokenStreams) -> Tensor:
    return torch.zeros_like(streams.token_weights).masked_scatter(streams.action_mask, weights)
