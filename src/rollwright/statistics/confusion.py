"""What a verifier said beside what is so: the four counts, and intervals of the two rates of error."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.proportions import Interval, wilson_interval

__all__ = ["Confusion", "Judged", "confusion_of"]


class Judged(Enum):
    """What became of one thing that was judged."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    ERROR = "error"
    """No judgement; neither of the two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """Counts over labeled things; those without a judgement stand apart and enter no rate."""

    true_accepts: int = 0
    false_accepts: int = 0
    true_rejects: int = 0
    false_rejects: int = 0
    errors: int = 0

    def __post_init__(self) -> None:
        """Refuse counts below 0."""
        if min(self.true_accepts, self.false_accepts, self.true_rejects, self.false_rejects, self.errors) < 0:
            raise StatisticsError(f"{self} has a count below 0.")

    @property
    def num(self) -> int:
        """All of them."""
        return self.num_right + self.num_wrong + self.errors

    @property
    def num_right(self) -> int:
        """Right ones that were judged."""
        return self.true_accepts + self.false_rejects

    @property
    def num_wrong(self) -> int:
        """Wrong ones that were judged."""
        return self.true_rejects + self.false_accepts

    @property
    def false_accept_rate(self) -> float | None:
        """Share of the wrong that is accepted; None without any."""
        return self.false_accepts / self.num_wrong if self.num_wrong else None

    @property
    def false_reject_rate(self) -> float | None:
        """Share of the right that is rejected; None without any."""
        return self.false_rejects / self.num_right if self.num_right else None

    def false_accept_interval(self, *, level: float = 0.95) -> Interval:
        """Of the share of the wrong that is accepted (Wilson)."""
        return wilson_interval(self.false_accepts, self.num_wrong, level=level)

    def false_reject_interval(self, *, level: float = 0.95) -> Interval:
        """Of the share of the right that is rejected (Wilson)."""
        return wilson_interval(self.false_rejects, self.num_right, level=level)


def confusion_of(pairs: Iterable[tuple[bool, Judged]]) -> Confusion:
    """Count pairs of what is so (True: right) and what was said of it."""
    counts = dict.fromkeys(("true_accepts", "false_accepts", "true_rejects", "false_rejects", "errors"), 0)
    for is_right, judged in pairs:
        match judged:
            case Judged.ACCEPTED:
                counts["true_accepts" if is_right else "false_accepts"] += 1
            case Judged.REJECTED:
                counts["false_rejects" if is_right else "true_rejects"] += 1
            case Judged.ERROR:
                counts["errors"] += 1
    return Confusion(**counts)
