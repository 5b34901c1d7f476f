"""What is compared with what: the comparison group as a named rule (M17)."""

from dataclasses import replace
from typing import Literal, assert_never

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import join_keys
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs
from rollwright.algorithms.streams import key_of

__all__ = ["ComparisonKey", "compare_within"]

ComparisonKey = Literal["dispatch", "task", "role", "parent", "state"]


def compare_within(inputs: CreditInputs, *, credit: CreditFn, by: tuple[ComparisonKey, ...] = ("dispatch",)) -> Credit:
    """Any group credit, among rows that are equal in all of these respects instead of the dispatch group.

    Only exchangeable traces are compared (hierarchical GRPO; public: prime-rl): solvers of one proposed problem by
    role and parent, proposers across problems by role and a parent that they share; roles never mix.

    Args:
        inputs: rows; `keys` has task, role and parent as far as `by` names them; state is that of a row's first
            action token.
        credit: the estimator; it sees the comparison group as its group.
        by: one or more of dispatch, task, role, parent, state.

    Returns:
        The estimator's credit. An episode counts once in each comparison group that it has rows in. A row without
        tokens, and one whose state is unknown, is in a comparison group of its own, so it gets 0 and a reason.
    """
    if not by or len(set(by)) < len(by):
        raise ObjectiveError(f"rows are compared by {by}; name dispatch, task, role, parent or state, each once.")
    group = join_keys([_key(inputs, name) for name in by])
    alone = inputs.row_offsets.diff() == 0
    if "state" in by:
        alone = alone | (_first_state(inputs) < 0)
    group = torch.where(alone, len(group) + torch.arange(len(group)), group)
    return credit(replace(inputs, group_index=group, episode_index=join_keys([inputs.episode_index, group])))


def _key(inputs: CreditInputs, name: ComparisonKey) -> Tensor:
    match name:
        case "dispatch":
            return inputs.group_index
        case "state":
            return _first_state(inputs)
        case "task" | "role" | "parent":
            return key_of(inputs, name)
        case _:
            assert_never(name)


def _first_state(inputs: CreditInputs) -> Tensor:
    """(R,) int64 state of each row's first action token; −1 where the row has none."""
    has_tokens = inputs.row_offsets.diff() > 0
    states = torch.full_like(inputs.group_index, -1)
    states[has_tokens] = inputs.state_index[inputs.row_offsets[:-1][has_tokens]]
    return states
