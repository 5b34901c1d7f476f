"""Gold against √KL, and the rule that stops; a diversity that is paid beside one that is not."""

import math

import pytest

from rollwright.statistics.diversity_audit import audit_diversity
from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.overoptimization import GoldPoint, fit_gold_curve, is_overoptimized


def points(a: float, b: float, num: int = 9) -> list[GoldPoint]:
    return [GoldPoint(kl=d * d, proxy=a * d, gold=0.25 + d * (a - b * d)) for d in range(num)]


def test_the_curve_of_known_coefficients_is_found_again_with_its_peak() -> None:
    curve = fit_gold_curve(points(1.0, 0.125))
    assert (curve.a, curve.b, curve.start) == pytest.approx((1.0, 0.125, 0.25))
    assert curve.peak_distance == pytest.approx(4.0)
    assert curve.at(16.0) == pytest.approx(0.25 + 2.0)
    assert fit_gold_curve(points(1.0, 0.0)).peak_distance is None or fit_gold_curve(points(1.0, 0.0)).b < 1e-9


def test_training_stops_only_once_gold_falls_while_the_proxy_rises() -> None:
    path = points(1.0, 0.125)
    stops = [is_overoptimized(path[: n + 1], window=3) for n in range(len(path))]
    assert stops == [False] * 6 + [True] * 3  # The peak is at √KL = 4; the first falling line ends at 6.
    both_fall = [GoldPoint(kl=n, proxy=-n, gold=-n) for n in range(5)]
    assert not is_overoptimized(both_fall, window=3)
    assert not is_overoptimized(path, window=3, tolerance=10.0)


def test_too_few_points_are_refused() -> None:
    with pytest.raises(StatisticsError, match="at least three"):
        fit_gold_curve(points(1.0, 0.1, num=2))
    with pytest.raises(StatisticsError, match="window"):
        is_overoptimized(points(1.0, 0.1), window=2)


def distinct_words(group) -> float:
    """The metric that is paid: how many attempts have words that no other has."""
    words = [set(text.split()) for text in group]
    own = [any(word not in set().union(*(o for o in words if o is not mine)) for word in mine) for mine in words]
    return math.fsum(own) / len(group)


@pytest.mark.row("S418")
def test_noise_words_game_a_diversity_reward_and_the_independent_audit_raises_the_alarm() -> None:
    honest = [["by parts 4", "by substitution 5", "by symmetry 6"]] * 3
    gamed = [["zq1 4", "zq2 4", "zq3 4"]] * 3
    fair = audit_diversity(honest, rewarded=distinct_words, meaning=lambda text: text.split()[-1])
    caught = audit_diversity(gamed, rewarded=distinct_words, meaning=lambda text: text.split()[-1])
    assert fair.rewarded == caught.rewarded == 1.0
    assert (fair.independent, fair.is_alarm) == (1.0, False)
    assert (caught.independent, caught.gap, caught.is_alarm) == (0.0, 1.0, True)
    with pytest.raises(StatisticsError, match="two attempts"):
        audit_diversity([["one"]], rewarded=distinct_words, meaning=str)
