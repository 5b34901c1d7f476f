"""What a credit may read beside rewards and groups, by name; and the error for what is not there.

| name | of | shape | what it is |
|---|---|---|---|
| behavior, proximal, reference | logprobs | (N,) | scores of the sampled token, nats |
| teacher | logprobs | (N,) | the teacher's score of the student's token (M23, M24) |
| informed | logprobs | (N,) | the policy's own score with a demonstration in its context (M27) |
| after, before | logprobs | (N,) | a small model's score after and before its own RL (M26) |
| process, process_reference | logprobs | (N,) | the implicit reward model and its frozen start (M19) |
| predicted | values | (N,) | the critic's value of the state before each token |
| bootstrap | values | (R,) | the critic's value of the state behind a truncated row |
| entropy | values | (N,) | of the full vocabulary, nats, detached, before the update (M21) |
| sum_squared_probabilities | values | (N,) | Σπ² over the vocabulary (M10) |
| greedy_reward | values | (R,) | reward of the greedy attempt at the row's task; NaN where there is none (M08) |
| role_reward | values | (R,) | what the row's role was worth; NaN where unscored (M17) |
| quality | values | (R,) | a grader's factor in (0, 1]; NaN where there is none (M29) |
| is_hack | values | (R,) | 1 for a confirmed hack (M29) |
| thinking_tokens, answer_tokens | values | (R,) | lengths of the row's reasoning and of its answer (M88) |
| input_tokens | values | (R,) | tokens that the policy read in the row (M90) |
| cold_start_budget | values | (R,) | b₀ of the problem, tokens; NaN where there is none (M91) |
| effort | values | (R,) | 1…100 that was asked for; NaN where none was (M91) |
| part/<name> | values | (R,) | a raw part of the row's reward; NaN where it gave nothing (M119) |
| tool_calls | values | (R,) | calls of the attempt (M124) |
| is_flagged | values | (N,) | 1 on tokens of a flagged span (M30) |
| task, role, parent | keys | (R,) | int64 identities for comparison groups |
"""

from typing import Final

from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import CreditInputs

__all__ = ["BEFORE_CREDIT", "key_of", "logprobs_of", "value_of"]

BEFORE_CREDIT: Final = frozenset({"proximal", "reference", "entropy", "sum_squared_probabilities"})
"""What a learner makes of a batch before its credit, where `Objective.before_credit` asks for it."""

_OF_TOKENS: Final = frozenset({"predicted", "entropy", "sum_squared_probabilities", "is_flagged"})
_OF_ROWS: Final = frozenset(
    {
        "bootstrap",
        "greedy_reward",
        "quality",
        "is_hack",
        "role_reward",
        "thinking_tokens",
        "answer_tokens",
        "input_tokens",
        "cold_start_budget",
        "effort",
        "tool_calls",
    }
)
"""Values by what has one of them; what is in neither is its reader's to check."""


def logprobs_of(inputs: CreditInputs, name: str) -> Tensor:
    """(N,) float64 scores of this name; refuses a batch that has none, or another number of them."""
    what = f"{name} log-probabilities"
    return _one_each(_found(inputs.logprobs.get(name), what, sorted(inputs.logprobs)), what, _num_tokens(inputs))


def value_of(inputs: CreditInputs, name: str) -> Tensor:
    """(N,) or (R,) float64 values of this name; refuses a batch that has none, or another number of them."""
    what = f"`{name}` values"
    found = _found(inputs.values.get(name), what, sorted(inputs.values))
    if name in _OF_TOKENS:
        return _one_each(found, what, _num_tokens(inputs))
    is_of_rows = name in _OF_ROWS or name.startswith("part/")
    return _one_each(found, what, len(inputs.rewards)) if is_of_rows else found


def key_of(inputs: CreditInputs, name: str) -> Tensor:
    """(R,) int64 identities of this name; refuses a batch that has none, or another number of them."""
    what = f"`{name}` keys"
    return _one_each(_found(inputs.keys.get(name), what, sorted(inputs.keys)), what, len(inputs.rewards))


def _num_tokens(inputs: CreditInputs) -> int:
    return int(inputs.row_offsets[-1])


def _one_each(stream: Tensor, what: str, due: int) -> Tensor:
    if stream.shape != (due,):
        raise ObjectiveError(f"the {what} have shape {tuple(stream.shape)}; this batch needs ({due},).")
    return stream


def _found(stream: Tensor | None, what: str, present: list[str]) -> Tensor:
    if stream is None:
        raise ObjectiveError(
            f"the credit reads {what}, but the batch has {present}; what is needed is made before credit, or choose an "
            "estimator that does without."
        )
    return stream
