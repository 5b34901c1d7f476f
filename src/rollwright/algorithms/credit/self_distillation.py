"""Credit from the policy's own scores when it has seen a demonstration (M27)."""

import torch

from rollwright.algorithms.credit.distillation import Student, clamped_gap
from rollwright.algorithms.credit.groups import broadcast_to_tokens
from rollwright.algorithms.credit.token_rewards import credit_of_scored
from rollwright.algorithms.credit.withheld import with_advantages
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs
from rollwright.algorithms.streams import logprobs_of

__all__ = ["reinforce_surprises", "self_teacher_gap", "surprises"]


def self_teacher_gap(inputs: CreditInputs, *, bound: float = 20.0, student: Student = "proximal") -> Credit:
    """Informed minus uninformed score of the same policy at each sampled token (OPSD, SDFT; prime-rl).

    Args:
        inputs: rows with `informed` scores (N,), made with a demonstration in the context, and the student's.
        bound: nats.
        student: whose score is uninformed: the learner's before the update, or the engine's.

    Returns:
        (N,) float64, nats; an unscored row gets 0 and a reason.
    """
    gap = clamped_gap(logprobs_of(inputs, "informed"), logprobs_of(inputs, student), bound)
    return credit_of_scored(inputs, gap, None)


def surprises(inputs: CreditInputs, *, threshold: float = 1.0, student: Student = "proximal") -> torch.Tensor:
    """(N,) float64 nats: max(0, student − informed) in rows with a reward of at least `threshold`, else 0."""
    gap = clamped_gap(logprobs_of(inputs, student), logprobs_of(inputs, "informed"), torch.inf)
    is_success = broadcast_to_tokens(inputs.rewards >= threshold, inputs.row_offsets)
    return torch.where(is_success, gap.clamp(min=0.0), 0.0)


def reinforce_surprises(
    inputs: CreditInputs,
    *,
    credit: CreditFn,
    bonus: float | None = None,
    threshold: float = 1.0,
    student: Student = "proximal",
) -> Credit:
    """Add bonus·max(0, student − informed) on successes: what the informed policy would not have said (RLRT).

    The shape of the bonus is read from the abstract, not from a formula of the authors.

    Args:
        inputs: rows with `informed` scores (N,) and the student's, and what `credit` reads.
        credit: of the task.
        bonus: λ ≥ 0; the abstract does not give it.
        threshold: least reward of a success, verifier units.
        student: whose score is uninformed.

    Returns:
        (N,) float64; failures have the given credit alone, withheld rows stay 0.
    """
    factor = chosen("bonus", bonus, undisclosed_by="RLRT")
    if factor < 0:
        raise ObjectiveError(f"the bonus is {factor}; it is at least 0.")
    given = credit(inputs)
    added = factor * surprises(inputs, threshold=threshold, student=student)
    return with_advantages(given, given.advantages + added, inputs.row_offsets)
