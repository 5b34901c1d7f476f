"""How varied the attempts at one task are: distinct answers, entropy of choices, repetition."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence

__all__ = ["choice_entropy", "count_distinct", "repeated_share"]


def count_distinct(items: Sequence[Hashable]) -> int:
    """The number of different items; None is an item without a value and counts for nothing."""
    return len({item for item in items if item is not None})


def choice_entropy(choices: Sequence[Hashable]) -> float | None:
    """Entropy of the choices that were made, −Σ p̂ ln p̂.

    The estimate is biased low for few choices; compare it at equal numbers of them.

    Args:
        choices: one item a choice, such as the name of the tool that was called.

    Returns:
        Nats, 0 where all are equal; None without a choice.
    """
    if not choices:
        return None
    shares = [count / len(choices) for count in Counter(choices).values()]
    return max(0.0, -math.fsum(share * math.log(share) for share in shares))


def repeated_share(items: Sequence[Hashable]) -> float | None:
    """Share of items that equal an earlier one: 0 where all differ, (n − 1)/n where all are equal; None without any."""
    return 1.0 - len(set(items)) / len(items) if items else None
