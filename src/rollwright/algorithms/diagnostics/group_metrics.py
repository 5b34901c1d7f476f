"""Metrics of groups and of values: which groups could teach something, and how well a critic predicts (M135)."""

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import group_statistics
from rollwright.algorithms.diagnostics.measurement import Diagnostic, share_of
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import CreditInputs

__all__ = ["explained_variance", "group_diagnostics"]


def group_diagnostics(inputs: CreditInputs, *, success_at: float) -> tuple[Diagnostic, ...]:
    """How many groups could teach something: shares without contrast, split by what they all got.

    Args:
        inputs: rows of whole groups, before truncation treatments.
        success_at: reward from which an attempt is right, verifier units.

    Returns:
        reward/zero_var_frac, reward/all_right, reward/all_wrong and reward/no_baseline_frac over groups with a score.
    """
    statistics = group_statistics(inputs)
    is_first = torch.ones_like(inputs.group_index, dtype=torch.bool)
    order = inputs.group_index.argsort(stable=True)
    is_first[order[1:]] = inputs.group_index[order].diff() != 0
    is_counted = is_first & (statistics.num_episodes > 0)
    shares = {
        "reward/zero_var_frac": statistics.has_zero_variance,
        "reward/all_right": statistics.has_zero_variance & (statistics.mean >= success_at),
        "reward/all_wrong": statistics.has_zero_variance & (statistics.mean < success_at),
        "reward/no_baseline_frac": statistics.has_no_baseline,
    }
    return tuple(share_of(name, where[is_counted]) for name, where in shares.items())


def explained_variance(predicted: Tensor, returns: Tensor, mask: Tensor) -> float | None:
    """1 − Var(R − V)/Var(R): 1 for a perfect critic, 0 for a constant one, below 0 for one that is worse.

    Args:
        predicted: (T,) values V.
        returns: (T,) what was to be predicted, R.
        mask: (T,) bool; values elsewhere are not read.

    Returns:
        At most 1; None where nothing is measured or the returns do not vary.
    """
    if not predicted.shape == returns.shape == mask.shape:
        raise ObjectiveError(
            f"predicted has shape {tuple(predicted.shape)}, returns {tuple(returns.shape)} and mask "
            f"{tuple(mask.shape)}; give one of each a token."
        )
    value, due = (stream[mask].detach().to(torch.float64) for stream in (predicted, returns))
    if len(due) == 0:
        return None
    left, around = ((stream - stream.mean()).square().mean() for stream in (due - value, due))
    return 1.0 - float(left / around) if float(around) > 0 else None
