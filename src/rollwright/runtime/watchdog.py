"""Who is waited for, since when, and what happens when that is too long.

    with dog.waiting("learner", "step 4"):          someone waits for a component; a stall is named, once
    wait.beat()                                     it has moved
    dog.failed("engine", "engine lost: …")          the last causes are kept for the diagnosis
    dog.progressed("step 4")                        the run has moved

One loop (`run`) wakes every `look_s`. It tells of each wait that is longer than its component's patience, and ends the
run with a diagnosis where a component that cannot be made again does not answer, or no step is finished for too long.
It waits for time alone, and sees it when the event loop itself was held.
"""

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rollwright.rollout import Clock
from rollwright.runtime.errors import NoProgressError

__all__ = ["COMPONENTS", "Patience", "Stall", "Wait", "WatchRules", "Watchdog"]

COMPONENTS = ("dispatcher", "engine", "environments", "sandboxes", "verifiers", "learner", "disk")
"""Names that the wiring uses; any other is as good."""

_KEPT_CAUSES = 200
_SHOWN_CAUSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one wait for a component may last without a sign of it."""

    tell_s: float = 300.0
    """Then it is named."""
    stop_s: float | None = None
    """Then the run ends; None: it goes on, because the component is made again or has a deadline of its own."""

    def __post_init__(self) -> None:
        """Refuse a patience that cannot be kept."""
        if not self.tell_s > 0 or (self.stop_s is not None and self.stop_s < self.tell_s):
            raise ValueError(f"{self}: tell_s is above 0, and stop_s is not below it, or None for never.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRules:
    """Patience with each component and with the run."""

    patience: Mapping[str, Patience] = field(default_factory=dict[str, Patience])
    """By component; those that are not named have the patience of `Patience()`."""
    run_s: float = 3600.0
    """Without a finished step, after which the run ends: it lives and gets nowhere."""
    let_go_s: float = 10.0
    """For a run that was stopped to end, after which a person is told that something holds it."""
    look_s: float = 1.0

    def of(self, component: str) -> Patience:
        """The patience with a component."""
        return self.patience.get(component, Patience())


@dataclass(slots=True, kw_only=True, eq=False)
class Wait:
    """Something that a component owes. Call `beat` when it has moved."""

    component: str
    what: str
    since_s: float
    beat_s: float
    clock: Clock
    is_told: bool = False

    def beat(self) -> None:
        """It lives."""
        self.beat_s = self.clock.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A wait that is too long."""

    component: str
    what: str
    quiet_s: float
    """Since its last sign."""
    patience_s: float

    def __str__(self) -> str:
        """As a person reads it."""
        return (
            f"{self.component} has given no sign for {self.quiet_s:.0f} s (expected within {self.patience_s:g} s): "
            f"{self.what}"
        )


class Watchdog:
    """The heartbeats of one run. Waits may begin and end in any thread; `look` and `run` are the event loop's."""

    def __init__(self, rules: WatchRules, clock: Clock, tell: Callable[[str], None]) -> None:
        """Start the run's time now.

        Args:
            rules: who may take how long.
            clock: for durations.
            tell: shows a sentence to a person.
        """
        self._rules = rules
        self._clock = clock
        self._tell = tell
        self._waits: dict[int, Wait] = {}
        self._numbers = itertools.count()
        self._causes: deque[tuple[str, str]] = deque(maxlen=_KEPT_CAUSES)
        self._restarts: Counter[str] = Counter()
        self._untold = 0
        self._notes: list[Callable[[], str]] = []
        self._moved = ("nothing yet", clock.monotonic())
        self._hopeless: str | None = None

    @contextmanager
    def waiting(self, component: str, what: str) -> Generator[Wait]:
        """Say that `component` owes `what` as long as the block runs."""
        now = self._clock.monotonic()
        number = next(self._numbers)
        wait = Wait(component=component, what=what, since_s=now, beat_s=now, clock=self._clock)
        self._waits[number] = wait
        try:
            yield wait
        finally:
            del self._waits[number]
            if wait.is_told:
                self._tell(f"{component} is done with {what}, after {self._clock.monotonic() - wait.since_s:.0f} s")

    def failed(self, component: str, cause: str) -> None:
        """Keep a cause for the diagnosis."""
        self._causes.append((component, cause))

    def restarted(self, component: str, cause: str) -> None:
        """A component was made again."""
        self._restarts[component] += 1
        self._untold += 1
        self.failed(component, cause)
        self._tell(f"{component} was made again, for the {_ordinal(self._restarts[component])} time: {cause}")

    def take_restarts(self) -> int:
        """How often something was made again since the last call."""
        untold, self._untold = self._untold, 0
        return untold

    def give_up(self, component: str, cause: str) -> None:
        """A component will not come back: the next look ends the run."""
        self.failed(component, cause)
        self._hopeless = f"{component} cannot be made again: {cause}"

    def progressed(self, what: str) -> None:
        """The run has moved: a step is finished, or an evaluation."""
        self._moved = (what, self._clock.monotonic())

    def explain(self, note: Callable[[], str]) -> None:
        """Ask `note` for a sentence when a diagnosis is made; an empty one is left out."""
        self._notes.append(note)

    def stalls(self) -> tuple[Stall, ...]:
        """Waits that are longer than they may be, the longest first."""
        now = self._clock.monotonic()
        found = [
            Stall(component=w.component, what=w.what, quiet_s=now - w.beat_s, patience_s=patience.tell_s)
            for w in tuple(self._waits.values())
            if now - w.beat_s > (patience := self._rules.of(w.component)).tell_s
        ]
        return tuple(sorted(found, key=lambda stall: -stall.quiet_s))

    def look(self) -> None:
        """Tell of new stalls.

        Raises:
            NoProgressError: with a diagnosis, where the run cannot go on.
        """
        now = self._clock.monotonic()
        for wait in tuple(self._waits.values()):
            if not wait.is_told and now - wait.beat_s > self._rules.of(wait.component).tell_s:
                wait.is_told = True
                self._tell(f"{wait.component} has given no sign for {now - wait.beat_s:.0f} s: {wait.what}")
        for wait in tuple(self._waits.values()):
            stop_s = self._rules.of(wait.component).stop_s
            if stop_s is not None and now - wait.beat_s > stop_s:
                self._stop(f"{wait.component} has given no sign for {now - wait.beat_s:.0f} s: {wait.what}")
        if self._hopeless is not None:
            self._stop(self._hopeless)
        if now - self._moved[1] > self._rules.run_s:
            self._stop(f"no step was finished for {now - self._moved[1]:.0f} s")

    async def run(self) -> None:
        """Look until cancelled.

        Raises:
            NoProgressError: with a diagnosis, where the run cannot go on.
        """
        while True:
            before = self._clock.monotonic()
            await asyncio.sleep(self._rules.look_s)
            late_s = self._clock.monotonic() - before - self._rules.look_s
            if late_s > self._rules.of("event loop").tell_s:
                self._tell(f"the event loop was held for {late_s:.0f} s: something blocks it that should wait")
            try:
                self.look()
            except NoProgressError as error:
                asyncio.get_running_loop().call_later(self._rules.let_go_s, self._tell_held, error)
                raise

    def diagnosis(self) -> str:
        """What each component is doing, since when, and why the last things failed."""
        now = self._clock.monotonic()
        what, at = self._moved
        parts = [f"the last progress was {what}, {now - at:.0f} s ago"]
        by_component: dict[str, list[Wait]] = {}
        for wait in tuple(self._waits.values()):
            by_component.setdefault(wait.component, []).append(wait)
        for component in sorted({*by_component, *self._restarts}):
            parts.append(self._doing(component, by_component.get(component, []), now))
        if not by_component:
            parts.append("nothing is waited for")
        counts = Counter(self._causes)
        parts += [
            f"{component} failed {_times(n)}: {cause}" for (component, cause), n in counts.most_common(_SHOWN_CAUSES)
        ]
        parts += [sentence for note in self._notes if (sentence := note())]
        return "; ".join(parts)

    def _doing(self, component: str, waits: list[Wait], now: float) -> str:
        again = f", made again {_times(self._restarts[component])}" if self._restarts[component] else ""
        if not waits:
            return f"{component} has nothing to do{again}"
        oldest = min(waits, key=lambda wait: wait.beat_s)
        others = f" and {len(waits) - 1} more" if len(waits) > 1 else ""
        return f"{component} owes {oldest.what}{others}, the longest silent for {now - oldest.beat_s:.0f} s{again}"

    def _tell_held(self, error: NoProgressError) -> None:
        self._tell(
            f"the run was stopped {self._rules.let_go_s:g} s ago and does not end: an environment, tool or verifier "
            "does not let itself be cancelled. End the process (Ctrl-C three times, or kill): nothing saved is lost. "
            f"It was stopped because {error}"
        )

    def _stop(self, why: str) -> None:
        raise NoProgressError(
            f"{why}. The run stops rather than wait for ever: {self.diagnosis()}. Everything up to the last saved step "
            "is kept: mend what is named and `rollwright resume` the run."
        )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
