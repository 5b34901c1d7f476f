"""Credit on one scale for every task source (M33)."""

from dataclasses import replace

import torch

from rollwright.algorithms.credit.groups import (
    ZERO_CONTRAST,
    broadcast_to_tokens,
    count_groups,
    places_of,
    rows_where,
    trained_tokens,
)
from rollwright.algorithms.credit.moments import moments_of, whiten
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs

__all__ = ["normalize_by_source"]


def normalize_by_source(inputs: CreditInputs, *, credit: CreditFn, ddof: int = 0, eps: float = 0.0) -> Credit:
    """Any credit, whitened over the action tokens of each task source (AgentRL: arXiv:2510.04206).

    Args:
        inputs: rows of whole groups; source_index (R,) int64.
        credit: the estimator that comes before.
        ddof: 0 divides the squares by the source's tokens, 1 by one less.
        eps: added to the standard deviation.

    Returns:
        The credit with mean 0 and standard deviation 1 in every source, whatever the scale of its rewards; tokens of
        untrained rows count nowhere. A source of one level, or of fewer than two tokens, gets 0 and a reason.
    """
    given = credit(inputs)
    source = places_of(inputs.source_index)
    is_counted = trained_tokens(given, inputs.row_offsets)
    of_token = broadcast_to_tokens(source, inputs.row_offsets)
    moments = moments_of(given.advantages[is_counted], of_token[is_counted], count_groups(source))
    whitened = whiten(given.advantages, moments, of_token, ddof=ddof, eps=eps, guard="std")
    return replace(
        given,
        advantages=torch.where(is_counted, whitened, 0.0),
        untrained={**dict.fromkeys(rows_where(moments.is_level[source]), ZERO_CONTRAST), **given.untrained},
    )
