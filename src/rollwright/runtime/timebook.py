"""What each part of a run does with its time: busy, syncing, starved or blocked, second by second.

    engine ──► environment ──► verifiers ──► learner ──► engine …        loop: the thread that joins them

A part is *busy* while at least one thing is asked of it, and *syncing* while weights go over. One that has nothing to
do is *starved* while another part before it works on what it waits for, and *blocked* while it may not go on: the parts
that sample, while the learner holds them (the largest lag); the learner, while the disk does. The loop (driver,
dispatcher, rendering, bookkeeping) is busy while its thread has a processor, starved while another part works, and
blocked while none does. Of that, what no part accounts for, the disk neither, is *unattributed*.

All is counted on the event loop's thread. What is asked of a part twice at once costs nothing here: only the first and
the last of it look at a clock.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["PARTS", "PartTimes", "RunPart", "TimeBook"]

RunPart = Literal["engine", "environment", "verifiers", "learner", "loop"]
PartState = Literal["busy", "syncing", "blocked", "starved"]
PARTS: Final[tuple[RunPart, ...]] = ("engine", "environment", "verifiers", "learner", "loop")
_SAID: Final[tuple[PartState, ...]] = ("busy", "syncing", "blocked")
_ASKED: Final[tuple[RunPart, ...]] = ("engine", "environment", "verifiers", "learner")
_SAMPLING: Final[tuple[RunPart, ...]] = ("engine", "environment", "verifiers")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTimes:
    """Seconds since the last look."""

    seconds: Mapping[tuple[RunPart, PartState], float]
    """Those of each part add up to the time since then."""
    unattributed_s: float = 0.0
    """In which no part did anything, the loop's thread neither."""

    @property
    def wall_s(self) -> float:
        """Since the last look."""
        return sum(seconds for (part, _), seconds in self.seconds.items() if part == "loop")

    @property
    def bottleneck(self) -> RunPart | None:
        """The part that was at work longest, which the others wait for; None where nothing was."""
        worked = self.worked
        most = max(PARTS, key=lambda part: worked[part])
        return most if worked[most] > 0 else None

    @property
    def worked(self) -> Mapping[RunPart, float]:
        """Seconds in which each part was busy or syncing."""
        return {p: self.seconds.get((p, "busy"), 0.0) + self.seconds.get((p, "syncing"), 0.0) for p in PARTS}


class TimeBook:
    """Counts seconds by part and state."""

    def __init__(self, monotonic: Callable[[], float], thread_time: Callable[[], float] = lambda: 0.0) -> None:
        """Begin to count.

        Args:
            monotonic: gives seconds.
            thread_time: seconds for which the calling thread had a processor; without it the loop is never at work.
        """
        self._monotonic = monotonic
        self._thread_time = thread_time
        self._since = monotonic()
        self._worked: float | None = None
        self._doing: defaultdict[tuple[RunPart, PartState], int] = defaultdict(int)
        self._states: tuple[tuple[RunPart, PartState], ...] = ()
        self._is_anyone_at_work = False
        self._seconds: defaultdict[tuple[RunPart, PartState], float] = defaultdict(float)
        self._unattributed_s = 0.0
        self._note_states()

    @contextmanager
    def doing(self, part: RunPart, state: PartState = "busy") -> Generator[None]:
        """Count the part in this state while the block runs; several at once count once."""
        key = (part, state)
        if not self._doing[key]:
            self._turn(key, 1)
        else:
            self._doing[key] += 1
        try:
            yield
        finally:
            if self._doing[key] == 1:
                self._turn(key, -1)
            else:
                self._doing[key] -= 1

    def take(self) -> PartTimes:
        """The seconds since the last call; those of each part add up to the time between."""
        self._settle()
        times = PartTimes(
            seconds={key: seconds for key, seconds in sorted(self._seconds.items()) if seconds > 0},
            unattributed_s=self._unattributed_s,
        )
        self._seconds.clear()
        self._unattributed_s = 0.0
        return times

    def _turn(self, key: tuple[RunPart, PartState], change: int) -> None:
        """A part begins or ends something: what passed until now is settled."""
        self._settle()
        self._doing[key] += change
        self._note_states()

    def _settle(self) -> None:
        now, worked = self._monotonic(), self._thread_time()
        passed, self._since = now - self._since, now
        # The book may have been opened by another thread than the loop's, whose clock is another.
        busy = 0.0 if self._worked is None else min(max(worked - self._worked, 0.0), max(passed, 0.0))
        self._worked = worked
        if passed <= 0:
            return
        for key in self._states:
            self._seconds[key] += passed
        rest = passed - busy
        self._seconds["loop", "busy"] += busy
        self._seconds["loop", "starved" if self._is_anyone_at_work else "blocked"] += rest
        if not self._is_anyone_at_work and not self._doing["learner", "blocked"]:
            self._unattributed_s += rest

    def _note_states(self) -> None:
        """What each part that is asked does from now on."""
        idle: PartState = "starved" if any(self._doing[part, "busy"] for part in _SAMPLING) else "blocked"
        self._states = tuple((part, self._state_of(part, idle)) for part in _ASKED)
        self._is_anyone_at_work = any(state in ("busy", "syncing") for _, state in self._states)

    def _state_of(self, part: RunPart, idle: PartState) -> PartState:
        for state in _SAID:
            if self._doing[part, state]:
                return state
        return "starved" if part == "learner" else idle
