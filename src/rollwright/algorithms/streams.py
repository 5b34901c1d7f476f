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
| entropy | values | (N,) | of the full vocabulary, nats, detached (M21) |
| sum_squared_probabilities | values | (N,) | Σπ² over the vocabulary (M10) |
| greedy_reward | values | (R,) | reward of the greedy attempt at the row's task; NaN where there is none (M08) |
| quality | values | (R,) | a grader's factor in (0, 1]; NaN where there is none (M29) |
| is_hack | values | (R,) | 1 for a confirmed hack (M29) |
| is_flagged | values | (N,) | 1 on tokens of a flagged span (M30) |
| task, role, parent | keys | (R,) | int64 identities for comparison groups |
"""

from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import CreditInputs

__all__ = ["key_of", "logprobs_of", "value_of"]


def logprobs_of(inputs: CreditInputs, name: str) -> Tensor:
    """(N,) float64 scores of this name; refuses a batch that has none."""
    return _found(inputs.logprobs.get(name), f"{name} log-probabilities", sorted(inputs.logprobs))


def value_of(inputs: CreditInputs, name: str) -> Tensor:
    """(N,) or (R,) float64 values of this name; refuses a batch that has none."""
    return _found(inputs.values.get(name), f"`{name}` values", sorted(inputs.values))


def key_of(inputs: CreditInputs, name: str) -> Tensor:
    """(R,) int64 identities of this name; refuses a batch that has none."""
    return _found(inputs.keys.get(name), f"`{name}` keys", sorted(inputs.keys))


def _found(stream: Tensor | None, what: str, present: list[str]) -> Tensor:
    if stream is None:
        raise ObjectiveError(
            f"the credit reads {what}, but the batch has {present}; what is needed is made before credit, or choose an "
            "estimator that does without."
        )
    return stream
