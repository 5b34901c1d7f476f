"""Credit for groups whose attempts all passed or all failed, by token entropy (RL-ZVP, M21)."""

import torch

from rollwright.algorithms.credit.groups import broadcast_to_tokens, group_statistics, rows_where
from rollwright.algorithms.credit.withheld import lacks_contrast, with_advantages
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs
from rollwright.algorithms.rows import row_max
from rollwright.algorithms.streams import value_of

__all__ = ["learn_from_level_groups"]


def learn_from_level_groups(inputs: CreditInputs, *, credit: CreditFn, alpha: float | None = None) -> Credit:
    """+α·H_t where all attempts passed, −α·(max H − H_t) where all failed (RL-ZVP: arXiv:2509.21880).

    Uncertain tokens of a success are pushed most, and of a failure spared most. Mixed groups have the given credit.

    Args:
        inputs: rows of whole groups with rewards 0 or 1, and `entropy` (N,) of the full vocabulary, nats.
        credit: for mixed groups; the paper has the group mean and std.
        alpha: α > 0; the paper chooses one a model.

    Returns:
        (N,) float64. A group of one stays 0 (E1); a group that is level at another reward than 0 or 1 is refused.
    """
    scale = chosen("alpha", alpha, undisclosed_by="RL-ZVP (one a model)")
    if scale <= 0:
        raise ObjectiveError(f"alpha is {scale}; it is above 0.")
    given = credit(inputs)
    statistics = group_statistics(inputs)
    is_level = statistics.is_scored & statistics.has_zero_variance & lacks_contrast(given, len(inputs.rewards))
    is_pass, is_fail = is_level & (inputs.rewards == 1.0), is_level & (inputs.rewards == 0.0)
    if other := rows_where(is_level & ~is_pass & ~is_fail):
        raise ObjectiveError(
            f"rows {other} are in groups that are level at a reward other than 0 or 1; learning from level groups "
            "knows passes and failures only."
        )
    offsets = inputs.row_offsets
    entropy = value_of(inputs, "entropy").to(torch.float64).detach()
    highest = row_max(entropy, entropy.isfinite(), offsets)
    passed, failed = broadcast_to_tokens(is_pass, offsets), broadcast_to_tokens(is_fail, offsets)
    pushed = torch.where(passed, scale * entropy, given.advantages)
    pushed = torch.where(failed, -scale * (broadcast_to_tokens(highest, offsets) - entropy), pushed)
    return with_advantages(given, pushed, offsets)
