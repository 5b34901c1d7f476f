"""Credit of demonstrations: every action token is to be imitated."""

import torch

from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["imitate"]


def imitate(inputs: CreditInputs) -> Credit:
    """Advantage 1 for every action token, scored or not: a demonstration needs no verdict.

    Args:
        inputs: rows; only `row_offsets` is read.

    Returns:
        (N,) float64 ones; no row is untrained.
    """
    num_tokens = int(inputs.row_offsets[-1])
    return Credit(advantages=torch.ones(num_tokens, dtype=torch.float64), value_targets=None, untrained={})
