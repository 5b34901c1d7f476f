"""One acceptance for each (rollout, attempt), whatever is delivered twice (M114)."""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Accepted", "accept_once"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Deliveries by what became of them."""

    ids: tuple[str, ...]
    """In order of their first delivery."""
    refused: int
    """Deliveries of an id that had been accepted."""


def accept_once(deliveries: Iterable[str], *, before: frozenset[str] = frozenset()) -> Accepted:
    """Accept each id the first time, refuse and count it ever after.

    Args:
        deliveries: ids of (rollout, attempt); a retry in the same slot has an id of its own.
        before: ids that were accepted earlier, such as those of a checkpoint.
    """
    given = list(deliveries)
    fresh = tuple(dict.fromkeys(one for one in given if one not in before))
    return Accepted(ids=fresh, refused=len(given) - len(fresh))
