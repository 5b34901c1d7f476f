"""Choosing which attempts of an oversampled group are trained: clean successes, any failures (GRPO-RoC, M98).

The reward stays what it was; what is kept is no unbiased sample of the policy any more.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError

__all__ = ["inverse_penalty_chances", "resample_on_correct", "trace_penalty"]

_NO_CALL = 0.5
"""Tool-error score of a trace that calls no tool (arXiv:2508.20722)."""


def trace_penalty(errors: ArrayLike, calls: ArrayLike, answers: ArrayLike, turns: ArrayLike) -> NDArray[np.float64]:
    """Share of tool calls that failed, plus excess answers a turn (rStar2-Agent: arXiv:2508.20722).

    Args:
        errors: (R,) calls that ended in an error.
        calls: (R,) calls in all; without one the first part is 0.5.
        answers: (R,) answer tags; without one the second part is 1, else min(1, (answers − 1)/turns).
        turns: (R,) turns of the trace.

    Returns:
        (R,) float64 in [0, 2]; it selects and is never taken from a reward.
    """
    failed, made, given, spoken = (np.asarray(v, np.float64) for v in (errors, calls, answers, turns))
    if (failed > made).any() or ((given > 0) & (spoken < 1)).any():
        raise ObjectiveError("a trace has more tool errors than calls, or an answer and no turn; count them again.")
    tools = np.where(made > 0, failed / np.maximum(made, 1.0), _NO_CALL)
    form = np.where(given > 0, np.minimum(1.0, (given - 1.0) / np.maximum(spoken, 1.0)), 1.0)
    return tools + form


def inverse_penalty_chances(penalties: ArrayLike, *, floor: float | None = None) -> NDArray[np.float64]:
    """∝ 1/max(penalty, floor): the chance of each success to be the next that is kept.

    Args:
        penalties: (P,) of the successes.
        floor: above 0; a clean trace has penalty 0 and would take all of the chance.

    Returns:
        (P,) float64 summing to 1.
    """
    least = chosen("floor", floor, undisclosed_by="rStar2-Agent (arXiv:2508.20722)")
    if least <= 0:
        raise ObjectiveError(f"floor is {least}; it is above 0.")
    weights = 1.0 / np.maximum(np.asarray(penalties, np.float64), least)
    return weights / weights.sum()


def resample_on_correct(
    is_correct: ArrayLike,
    penalties: ArrayLike,
    *,
    keep: int,
    generator: np.random.Generator,
    floor: float | None = None,
) -> NDArray[np.int64]:
    """Which attempts of one oversampled group are kept: half of them failures, half successes by their penalty.

    Args:
        is_correct: (G',) bool, G' attempts at one task; unscored attempts are left out beforehand.
        penalties: (G',) of `trace_penalty`; only those of successes are read.
        keep: G, at most G'; too few of one kind are made up by the other.
        generator: of the draws, without replacement.
        floor: of `inverse_penalty_chances`.

    Returns:
        (keep,) int64 places in rising order.
    """
    correct = np.asarray(is_correct, np.bool_)
    right, wrong = np.flatnonzero(correct), np.flatnonzero(~correct)
    if not 0 <= keep <= len(correct):
        raise ObjectiveError(f"{keep} of {len(correct)} attempts are to be kept; sample more, or keep fewer.")
    failures = min(len(wrong), keep // 2)
    successes = min(len(right), keep - failures)
    failures = keep - successes
    chances = inverse_penalty_chances(np.asarray(penalties, np.float64)[right], floor=floor) if len(right) else None
    kept = [
        generator.choice(wrong, failures, replace=False),
        generator.choice(right, successes, replace=False, p=chances) if successes else right[:0],
    ]
    return np.sort(np.concatenate(kept)).astype(np.int64)
