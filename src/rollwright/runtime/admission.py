"""When a group may be dispatched: synchronous training is asynchronous training with a largest lag of zero."""

import math
from dataclasses import dataclass

__all__ = ["AdmissionRule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRule:
    """A group is admitted whole while `accepted + running + G <= (version + 1 + max_lag) * B` (M108)."""

    batch_slots: int
    """B, a multiple of G."""
    group_size: int
    """G"""
    max_lag: int

    def __post_init__(self) -> None:
        """Refuse a batch that groups cannot fill."""
        if self.group_size < 1 or self.batch_slots % self.group_size or self.batch_slots < self.group_size:
            raise ValueError(
                f"a batch of {self.batch_slots} slots cannot be filled by groups of {self.group_size}; "
                f"group sizes that divide it are {', '.join(map(str, _divisors(self.batch_slots)))}."
            )
        if self.max_lag < 0:
            raise ValueError(f"max_lag is {self.max_lag}; it is 0 (synchronous) or more.")

    def admits(self, *, accepted: int, running: int, version: int) -> bool:
        """True while one more group may start.

        Args:
            accepted: slots trained or ready since the stage's start.
            running: slots in flight, those that failed for good in standing groups included.
            version: steps finished in this stage.
        """
        return accepted + running + self.group_size <= (version + 1 + self.max_lag) * self.batch_slots


def _divisors(number: int) -> list[int]:
    """In rising order; those above the square root are the partners of those below."""
    low = [n for n in range(1, math.isqrt(max(number, 0)) + 1) if number % n == 0]
    return sorted({*low, *(number // n for n in low)})
