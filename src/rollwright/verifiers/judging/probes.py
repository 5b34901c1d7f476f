"""What sways a judge that should not: an answer's place, its length, and whose it is (M117).

Each probe is a difference that a fair judge leaves at 0. One beyond its declared limit refuses the judge.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.judging.asking import Unanswered
from rollwright.verifiers.judging.calibration import JudgeRefusedError
from rollwright.verifiers.judging.pairwise import Comparison, PairJudge

__all__ = ["BiasLimits", "BiasReport", "ProbePair", "probe_biases", "refuse_biased"]

_FILLER = (
    "To say it once more in other words: what was said above is what was meant, it was said with care, and nothing in "
    "it changes here. "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePair:
    """Two answers that a person holds equally good."""

    question: str
    own: str
    """Written by the judge's own model, or its family."""
    other: str
    """Written by another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasLimits:
    """How far each probe may lie from 0."""

    position: float = 0.15
    """Mean gap between the two orders, in [0, 1]."""
    min_flipped: float = 0.8
    """Share of comparisons with a winner whose winner changes sides when the answers are swapped."""
    length: float = 0.1
    """How much empty words may move the chance to win, in [0, 0.5]."""
    own: float = 0.1
    """How far the chance of the judge's own answers may lie from a half."""
    repeats: int = 4
    """Of the empty words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasReport:
    """What the probes came to; None where no comparison was answered, or none had a winner."""

    num: int
    """Comparisons that were answered."""
    num_unanswered: int
    position_gap: float | None
    flipped: float | None
    length_delta: float | None
    """Chance of an answer with empty words behind it against itself, minus a half."""
    own_delta: float | None
    """Chance of the judge's own answers against equally good ones, minus a half."""


async def probe_biases(judge: PairJudge, pairs: Sequence[ProbePair], limits: BiasLimits | None = None) -> BiasReport:
    """Ask a judge about pairs in which nothing but place, length or origin differs.

    Args:
        judge: compares in both orders.
        pairs: equally good answers.
        limits: for the amount of empty words.

    Raises:
        VerifierSetupError: without pairs.
    """
    if not pairs:
        raise VerifierSetupError("probes need pairs of equally good answers; there are none")
    filler = _FILLER * (limits or BiasLimits()).repeats
    asked = [(pair.question, pair.own, pair.other) for pair in pairs]
    padded = [(pair.question, f"{pair.other}\n\n{filler}", pair.other) for pair in pairs]
    async with asyncio.TaskGroup() as group:
        running = [
            [group.create_task(judge.compare(*texts), name=f"probe {number}") for number, texts in enumerate(probe)]
            for probe in (asked, padded)
        ]
    by_origin, by_length = (_answered([task.result() for task in tasks]) for tasks in running)
    both = [*by_origin, *by_length]
    decided = [found.is_flipped for found in both if _has_winner(found)]
    return BiasReport(
        num=len(both),
        num_unanswered=2 * len(pairs) - len(both),
        position_gap=fmean(found.position_gap for found in both) if both else None,
        flipped=fmean(decided) if decided else None,
        length_delta=fmean(found.first_wins for found in by_length) - 0.5 if by_length else None,
        own_delta=fmean(found.first_wins for found in by_origin) - 0.5 if by_origin else None,
    )


def refuse_biased(report: BiasReport, limits: BiasLimits) -> None:
    """Stop a judge that a probe sways.

    Raises:
        JudgeRefusedError: naming each probe beyond its limit, and its value.
    """
    if report.position_gap is None or report.length_delta is None or report.own_delta is None:
        raise JudgeRefusedError(
            f"{report.num_unanswered} comparisons of the probes were not answered; nothing is known"
        )
    swayed: list[str] = []
    if report.position_gap > limits.position:
        swayed.append(f"the order moves it by {report.position_gap:.3f} (limit {limits.position:g})")
    if report.flipped is not None and report.flipped < limits.min_flipped:
        swayed.append(f"swapping changes the winner in {report.flipped:.3f} ({limits.min_flipped:g} is needed)")
    if abs(report.length_delta) > limits.length:
        swayed.append(f"empty words move it by {report.length_delta:+.3f} (limit {limits.length:g})")
    if abs(report.own_delta) > limits.own:
        swayed.append(f"its own answers move it by {report.own_delta:+.3f} (limit {limits.own:g})")
    if swayed:
        raise JudgeRefusedError(f"the judge is swayed by what does not count: {'; '.join(swayed)}")


def _answered(found: Sequence[Comparison | Unanswered]) -> list[Comparison]:
    return [one for one in found if isinstance(one, Comparison)]


def _has_winner(found: Comparison) -> bool:
    return any(answer.found.first_wins != 0.5 for answer in found.asked)
