"""Majority voting: maj@k, also called cons@k (M128).

The most frequent answer wins. An invalid answer (None) takes an attempt and casts no vote. maj@k is a way to choose,
not a single attempt: cons@64 is no pass@1.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Literal, assert_never

from rollwright.statistics.errors import StatisticsError

__all__ = ["Ties", "majority_at_k", "majority_of_all"]

Ties = Literal["expected", "first", "lost"]
"""What a tie for the most votes is worth: its chance under a fair draw, the answer seen first, or nothing."""


def majority_of_all(answers: Sequence[Hashable], correct: Hashable, *, ties: Ties = "expected") -> float | None:
    """Whether the vote over all attempts gives the right answer (arXiv:2203.11171).

    Args:
        answers: one canonical answer an attempt, in order; None where it is invalid.
        correct: the canonical right answer.
        ties: `expected` shares the win between the tied answers, `first` gives it to the one seen first, `lost` to
            none.

    Returns:
        In [0, 1]; 0 where every answer is invalid, None without attempts.
    """
    _refuse_invalid(correct)
    if not answers:
        return None
    votes = Counter(answer for answer in answers if answer is not None)
    most = max(votes.values(), default=0)
    winners = [answer for answer, count in votes.items() if count == most]
    if correct not in winners:
        return 0.0
    match ties:
        case "expected":
            return 1.0 / len(winners)
        case "first":
            return float(winners[0] == correct)
        case "lost":
            return float(len(winners) == 1)
        case _:
            assert_never(ties)


def majority_at_k(
    answers: Sequence[Hashable], correct: Hashable, k: int, *, ties: Literal["expected", "lost"] = "expected"
) -> float | None:
    """Chance that a vote over k of the n attempts gives the right answer: the exact mean over all subsets of size k.

    Every subset counts as often as every other, so the value is unbiased for n > k. The order of attempts plays no
    part, hence no rule that looks at it.

    Args:
        answers: n canonical answers; None where one is invalid.
        correct: the canonical right answer.
        k: attempts in a vote.
        ties: `expected` shares the win between the tied answers, `lost` gives it to none.

    Returns:
        In [0, 1]; None where n < k, which no sample of n can say.
    """
    _refuse_invalid(correct)
    if k < 1:
        raise StatisticsError(f"a vote has k = {k} attempts; it needs at least 1.")
    if len(answers) < k:
        return None
    votes = Counter(answer for answer in answers if answer is not None)
    invalid, right = len(answers) - votes.total(), votes.pop(correct, 0)
    won = Fraction(0)
    for count in range(1, min(right, k) + 1):
        ways = math.comb(right, count)
        for (tied, drawn), found in _draws(list(votes.values()), at_most=count, places=k - count).items():
            share = Fraction(1, tied + 1) if ties == "expected" else Fraction(int(tied == 0))
            won += share * ways * found * math.comb(invalid, k - count - drawn)
    return float(won / math.comb(len(answers), k))


def _draws(votes: Sequence[int], *, at_most: int, places: int) -> dict[tuple[int, int], int]:
    """Ways to draw from the other answers, none more than `at_most` times, by (answers at that bound, votes drawn)."""
    ways = {(0, 0): 1}
    for available in votes:
        longer: dict[tuple[int, int], int] = {}
        for (tied, drawn), found in ways.items():
            for more in range(min(available, at_most, places - drawn) + 1):
                place = (tied + (more == at_most), drawn + more)
                longer[place] = longer.get(place, 0) + found * math.comb(available, more)
        ways = longer
    return ways


def _refuse_invalid(correct: Hashable) -> None:
    if correct is None:
        raise StatisticsError("the right answer is None, which stands for an invalid answer; give a canonical answer.")
