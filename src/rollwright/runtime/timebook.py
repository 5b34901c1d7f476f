"""What each part of a run does with its time: busy, syncing, starved or blocked, second by second.

    engine ──► environment ──► verifiers ──► learner ──► engine …

A part is *busy* while at least one thing is asked of it, and *syncing* while weights go over. One that has nothing to
do is *starved* while another part before it works on what it waits for, and *blocked* while it may not go on: the parts
that sample, while the learner holds them (the largest lag); the learner, while the disk does.

All is counted on the event loop's thread.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["PARTS", "PartTimes", "RunPart", "TimeBook"]

RunPart = Literal["engine", "environment", "verifiers", "learner"]
PartState = Literal["busy", "syncing", "blocked", "starved"]
PARTS: Final[tuple[RunPart, ...]] = ("engine", "environment", "verifiers", "learner")
_SAID: Final[tuple[PartState, ...]] = ("busy", "syncing", "blocked")
_SAMPLING: Final[tuple[RunPart, ...]] = ("engine", "environment", "verifiers")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTimes:
    """Seconds since the last look."""

    seconds: Mapping[tuple[RunPart, PartState], float]

    @property
    def bottleneck(self) -> RunPart | None:
        """The part that was at work longest, which the others wait for; None where nothing was."""
        worked = {p: self.seconds.get((p, "busy"), 0.0) + self.seconds.get((p, "syncing"), 0.0) for p in PARTS}
        most = max(PARTS, key=lambda part: worked[part])
        return most if worked[most] > 0 else None


class TimeBook:
    """Counts seconds by part and state."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Begin to count; `monotonic` gives seconds."""
        self._monotonic = monotonic
        self._since = monotonic()
        self._doing: Counter[tuple[RunPart, PartState]] = Counter()
        self._seconds: defaultdict[tuple[RunPart, PartState], float] = defaultdict(float)

    @contextmanager
    def doing(self, part: RunPart, state: PartState = "busy") -> Generator[None]:
        """Count the part in this state while the block runs; several at once count once."""
        self._settle()
        self._doing[part, state] += 1
        try:
            yield
        finally:
            self._settle()
            self._doing[part, state] -= 1

    def take(self) -> PartTimes:
        """The seconds since the last call; those of each part add up to the time between."""
        self._settle()
        times = PartTimes(seconds={key: seconds for key, seconds in sorted(self._seconds.items()) if seconds > 0})
        self._seconds.clear()
        return times

    def _settle(self) -> None:
        now = self._monotonic()
        passed, self._since = now - self._since, now
        if passed > 0:
            for part in PARTS:
                self._seconds[part, self._state_of(part)] += passed

    def _state_of(self, part: RunPart) -> PartState:
        for state in _SAID:
            if self._doing[part, state]:
                return state
        if part == "learner" or any(self._doing[other, "busy"] for other in _SAMPLING):
            return "starved"
        return "blocked"
