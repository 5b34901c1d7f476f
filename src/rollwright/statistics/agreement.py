"""Agreement of two graders, and of stated chances with what came true (M121)."""

from collections.abc import Sequence

from rollwright.statistics.errors import StatisticsError

__all__ = ["brier_score", "cohen_kappa"]


def cohen_kappa(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Agreement beyond what the two graders' own rates give by chance.

    Args:
        pairs: what each of the two said of one thing.

    Returns:
        At most 1; 0 is chance. None without pairs, and where both always say the same one thing.
    """
    if not pairs:
        return None
    num = len(pairs)
    observed = sum(first == second for first, second in pairs) / num
    first_rate, second_rate = sum(first for first, _ in pairs) / num, sum(second for _, second in pairs) / num
    by_chance = first_rate * second_rate + (1.0 - first_rate) * (1.0 - second_rate)
    return None if by_chance >= 1.0 else (observed - by_chance) / (1.0 - by_chance)


def brier_score(chances: Sequence[float], labels: Sequence[bool]) -> float | None:
    """Mean squared distance of stated chances from what came true: 0 is perfect, 0.25 a coin; None without items."""
    if len(chances) != len(labels):
        raise StatisticsError(f"{len(chances)} chances and {len(labels)} labels; give one of each an item.")
    if not all(0.0 <= chance <= 1.0 for chance in chances):
        raise StatisticsError("a chance lies outside 0 to 1.")
    if not chances:
        return None
    return sum((chance - label) ** 2 for chance, label in zip(chances, labels, strict=True)) / len(chances)
