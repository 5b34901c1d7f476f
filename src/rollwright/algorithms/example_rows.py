"""Three rows to weigh by hand: what each denominator makes of 2, 8 and 4 tokens, the first two rows of one prompt."""

from typing import Final

import torch

from rollwright.algorithms.denominators.source_balance import SourceBalance
from rollwright.algorithms.objective import CreditInputs, WeightFn
from rollwright.algorithms.rows import row_sum

__all__ = ["EXAMPLE_LENGTHS", "example_masses"]

EXAMPLE_LENGTHS: Final = (2, 8, 4)
_PROMPTS: Final = (0, 0, 1)
_REWARDS: Final = (1.0, 0.0, 1.0)


def example_masses(rule: WeightFn) -> tuple[float, ...]:
    """What the weights of each example row sum to.

    Args:
        rule: a denominator; under `kept` every token is.

    Returns:
        One number a row.
    """
    lengths = torch.tensor(EXAMPLE_LENGTHS)
    num_tokens, num_rows = int(lengths.sum()), len(lengths)
    zeros = torch.zeros(num_tokens, dtype=torch.float64)
    inputs = CreditInputs(
        rewards=torch.tensor(_REWARDS, dtype=torch.float64),
        group_index=torch.tensor(_PROMPTS),
        source_index=torch.full((num_rows,), _source(rule)),
        episode_index=torch.arange(num_rows),
        row_offsets=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]),
        is_truncated=torch.zeros(num_rows, dtype=torch.bool),
        step_rewards=zeros,
        turn_index=torch.zeros(num_tokens, dtype=torch.int64),
        state_index=torch.full((num_tokens,), -1),
        logprobs={},
        values={},
    )
    keep = torch.ones(num_tokens, dtype=torch.bool) if rule.counting == "kept" else None
    masses = row_sum(rule(inputs, keep), inputs.row_offsets)
    return tuple(float(mass) for mass in masses.unbind())


def _source(rule: WeightFn) -> int:
    """The task source of all rows: of a balance, the one with the largest target."""
    return max(rule.targets, key=lambda source: rule.targets[source]) if isinstance(rule, SourceBalance) else 0
