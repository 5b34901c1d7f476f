"""Credit from other models' scores of the student's own tokens (M23 to M26)."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.bootstrapping import check_fraction
from rollwright.algorithms.credit.groups import broadcast_to_tokens, rows_where
from rollwright.algorithms.credit.token_rewards import credit_of_scored
from rollwright.algorithms.credit.withheld import with_advantages
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs
from rollwright.algorithms.scans import backward_scan
from rollwright.algorithms.streams import logprobs_of

__all__ = [
    "Student",
    "clamped_gap",
    "count_clamped_gaps",
    "multi_teacher_gap",
    "policy_shift",
    "task_plus_teacher_gap",
    "teacher_gap",
]

Student = Literal["proximal", "behavior"]
"""Whose score of the sampled token is compared: the learner's just before the update, or the engine's."""


def teacher_gap(
    inputs: CreditInputs, *, bound: float = 20.0, discount: float = 0.0, student: Student = "proximal"
) -> Credit:
    """Teacher minus student at each sampled token: on-policy distillation by policy gradient.

    Its expectation over the student's next token is the gradient of the reverse KL at the recorded prefix, not of the
    KL between whole sequences. Thinking Machines ("On-Policy Distillation"); arXiv:2306.13649.

    Args:
        inputs: rows with teacher scores (N,) and the student's.
        bound: nats; a token that the teacher excludes has a gap of −bound. `count_clamped_gaps` says how many.
        discount: γ of later gaps, in [0, 1]; 0 gives a token its own gap alone.
        student: see `Student`.

    Returns:
        (N,) float64, nats; NaN where a score is missing, which the loss masks and counts. Rewards are not read, but an
        unscored row gets 0 and a reason (E5).
    """
    check_fraction("the discount", discount)
    gap = clamped_gap(logprobs_of(inputs, "teacher"), logprobs_of(inputs, student), bound)
    return credit_of_scored(inputs, _ahead(gap, discount, inputs.row_offsets), None)


def multi_teacher_gap(
    inputs: CreditInputs,
    *,
    teachers: Mapping[int, str],
    weights: Mapping[int, float] | None = None,
    bound: float = 20.0,
    student: Student = "proximal",
) -> Credit:
    """λ_d·(teacher of the row's source − student): one teacher a domain on the student's own tokens (MOPD).

    Nemotron Cascade 2 and Ultra. A row is never scored by another domain's teacher, whatever that stream holds.

    Args:
        inputs: rows with `source_index` (R,), the student's scores, and one (N,) stream for each teacher.
        teachers: source to the name of its teacher's stream in `logprobs`.
        weights: source to λ, not disclosed by any report.
        bound: nats, as in `teacher_gap`.
        student: see `Student`.

    Returns:
        (N,) float64, nats times λ; an unscored row gets 0 and a reason.
    """
    factors = chosen("weights", weights, undisclosed_by="Nemotron Cascade 2")
    known = torch.zeros(len(inputs.rewards), dtype=torch.bool)
    gaps = torch.zeros(int(inputs.row_offsets[-1]), dtype=torch.float64)
    for source, name in teachers.items():
        if source not in factors:
            raise ObjectiveError(
                f"source {source} has the teacher {name!r} and no weight; weights has {dict(factors)}."
            )
        is_here = inputs.source_index == source
        gap = clamped_gap(logprobs_of(inputs, name), logprobs_of(inputs, student), bound)
        gaps = torch.where(broadcast_to_tokens(is_here, inputs.row_offsets), factors[source] * gap, gaps)
        known |= is_here
    if orphans := rows_where(~known):
        raise ObjectiveError(f"rows {orphans} are of sources without a teacher; teachers has {dict(teachers)}.")
    return credit_of_scored(inputs, gaps, None)


def task_plus_teacher_gap(
    inputs: CreditInputs,
    *,
    credit: CreditFn,
    eta: float | None = None,
    kappa: float | None = None,
    task_weight: float = 1.0,
    student: Student = "proximal",
) -> Credit:
    """Task credit plus η·clip(teacher − student, ±κ) at every token (Kimi K3; prime-rl's two weights).

    Args:
        inputs: rows with teacher scores (N,) and the student's, and what `credit` reads.
        credit: of the task.
        eta: η of the gap.
        kappa: κ > 0, nats; inf for no bound.
        task_weight: of the task's advantage; older prime-rl: 1, with η = 0.
        student: see `Student`.

    Returns:
        (N,) float64; rows without contrast keep the teacher's part, withheld rows stay 0.
    """
    scale = chosen("eta", eta, undisclosed_by="Kimi K3")
    bound = chosen("kappa", kappa, undisclosed_by="Kimi K3")
    given = credit(inputs)
    gap = clamped_gap(logprobs_of(inputs, "teacher"), logprobs_of(inputs, student), bound)
    return with_advantages(given, task_weight * given.advantages + scale * gap, inputs.row_offsets)


def policy_shift(inputs: CreditInputs, *, scale: float | None = None, discount: float = 0.0) -> Credit:
    """How much another model's own RL raised the token: scale·(after − before), on the student's tokens (Direct-OPD).

    Args:
        inputs: rows with `after` and `before` scores (N,) of one small model, over the student's vocabulary.
        scale: of the shift; not disclosed, 1 is the bare log-ratio.
        discount: γ of later shifts, in [0, 1]; 0 gives a token its own alone.

    Returns:
        (N,) float64, nats times scale; an unscored row gets 0 and a reason.
    """
    check_fraction("the discount", discount)
    factor = chosen("scale", scale, undisclosed_by="Direct-OPD")
    shift = (logprobs_of(inputs, "after") - logprobs_of(inputs, "before")).to(torch.float64)
    return credit_of_scored(inputs, factor * _ahead(shift, discount, inputs.row_offsets), None)


def clamped_gap(teacher: Tensor, student: Tensor, bound: float) -> Tensor:
    """(N,) float64 teacher − student within ±bound, detached; NaN where either is missing."""
    if not bound > 0:
        raise ObjectiveError(f"the gap's bound is {bound}; it is above 0, in nats, inf for none.")
    return (teacher - student).detach().to(torch.float64).clamp(min=-bound, max=bound)


def count_clamped_gaps(inputs: CreditInputs, *, bound: float = 20.0, student: Student = "proximal") -> int:
    """Action tokens whose gap to the teacher lies strictly beyond ±bound."""
    gap = logprobs_of(inputs, "teacher") - logprobs_of(inputs, student)
    return int((gap.abs() > bound).sum())


def _ahead(gap: Tensor, discount: float, row_offsets: Tensor) -> Tensor:
    """(N,) discounted sum of the gaps from each token on; the gap itself under a discount of 0."""
    return gap if discount == 0 else backward_scan(gap, torch.full_like(gap, discount), row_offsets)
