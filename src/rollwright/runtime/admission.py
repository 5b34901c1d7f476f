"""When a group may be dispatched: synchronous training is asynchronous training with a largest lag of zero."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rollwright.runtime.errors import RuntimeRunError

__all__ = ["AdmissionRule", "EpisodeRoom"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRoom:
    """How many episodes may run at once, by what each of them holds to its end.

    An episode that is started beyond that waits for one thing while it holds another, and its own clock runs.
    """

    asked: int
    """As the recipe says: `runtime.concurrency`."""
    engine_slots: int
    """Contexts that the engine holds at once, each at full length: its cache in tokens, over its longest context."""
    contexts: int = 1
    """Of one episode at once: one for each of its actors."""
    environment: int | None = None
    """Episodes that it can have open at once, such as its sandboxes; None: it has no bound."""

    def __post_init__(self) -> None:
        """Refuse what has no room for one episode.

        Raises:
            RuntimeRunError: naming what is too small.
        """
        for name, places in self.bounds.items():
            if places < 1:
                raise RuntimeRunError(
                    f"no episode has room: {name} allows {places} at once ({self}). An engine needs a slot for each of "
                    "an episode's contexts (engine.num_slots), the rest is at least 1."
                )

    @property
    def bounds(self) -> Mapping[str, int]:
        """Episodes at once, by what allows so many."""
        found = {"runtime.concurrency": self.asked, "the engine": self.engine_slots // self.contexts}
        return found if self.environment is None else {**found, "the environment": self.environment}

    @property
    def places(self) -> int:
        """The least of all."""
        return min(self.bounds.values())

    @property
    def warning(self) -> str | None:
        """Why fewer run than were asked for, where that is not plain from the recipe."""
        if self.places == min(self.asked, self.engine_slots):
            return None
        allowed = ", ".join(f"{name} {places}" for name, places in self.bounds.items())
        return (
            f"{self.places} episodes run at once, of the {self.asked} that runtime.concurrency asks for; what each "
            f"allows: {allowed} ({self.engine_slots} slots for {self.contexts} contexts an episode)."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRule:
    """A group is admitted whole while `accepted + running + G <= (version + 1 + max_lag) * B`.

    M108, as AReaL has it (arXiv:2505.24298) for single rollouts.
    """

    batch_slots: int
    """B, a multiple of G."""
    group_size: int
    """G"""
    max_lag: int
    max_running: int | None = None
    """Slots in flight at once, at least G; None leaves that to the places of the engine."""
    extra_slots: int = 0
    """Started beyond what a batch needs, so that it is full before the slowest end (oversampling); a multiple of G."""
    max_steps: int | None = None
    """Of the stage: nothing is started that no step of it could train. None: it goes on."""

    def __post_init__(self) -> None:
        """Refuse a batch that groups cannot fill."""
        if self.group_size < 1 or self.batch_slots % self.group_size or self.batch_slots < self.group_size:
            raise ValueError(
                f"a batch of {self.batch_slots} slots cannot be filled by groups of {self.group_size}; "
                f"group sizes that divide it are {', '.join(map(str, _divisors(self.batch_slots)))}."
            )
        if self.max_lag < 0:
            raise ValueError(f"max_lag is {self.max_lag}; it is 0 (synchronous) or more.")
        if self.max_running is not None and self.max_running < self.group_size:
            raise ValueError(
                f"max_running is {self.max_running} and groups have {self.group_size} slots; a group starts whole."
            )
        if self.extra_slots < 0 or self.extra_slots % self.group_size:
            raise ValueError(
                f"extra_slots is {self.extra_slots} and groups have {self.group_size} slots; it is a multiple of that, "
                "from 0."
            )

    def admits(self, *, accepted: int, running: int, version: int) -> bool:
        """True while one more group may start: `capacity` has room for it whole."""
        return self.capacity(accepted=accepted, running=running, version=version) >= self.group_size

    def capacity(self, *, accepted: int, running: int, version: int) -> int:
        """Slots that may start now: what age allows, and no more than what may run at once.

        Args:
            accepted: slots trained or ready since the stage's start.
            running: slots in flight, those that failed for good in standing groups included.
            version: steps finished in this stage.
        """
        by_age = self.staleness_capacity(accepted=accepted, running=running, version=version)
        return by_age if self.max_running is None else min(by_age, self.max_running - running)

    def staleness_capacity(self, *, accepted: int, running: int, version: int) -> int:
        """Slots that may start without any of them being too old when trained: (version + 1 + max_lag)·B less these.

        Oversampling adds its slots while the batch of this version is not full, but not to the last batches of a stage:
        what starts behind a full batch is too old for the one after the largest lag.
        """
        allowed = (version + 1 + self.max_lag) * self.batch_slots
        if accepted < (version + 1) * self.batch_slots:
            allowed += self.extra_slots
        if self.max_steps is not None:
            allowed = min(allowed, self.max_steps * self.batch_slots)
        return allowed - accepted - running

    @property
    def most_ready(self) -> int:
        """Slots that can be in flight, ready or in the batch that is being trained, at any time."""
        return (self.max_lag + 2) * self.batch_slots + self.extra_slots


def _divisors(number: int) -> list[int]:
    """In rising order; those above the square root are the partners of those below."""
    low = [n for n in range(1, math.isqrt(max(number, 0)) + 1) if number % n == 0]
    return sorted({*low, *(number // n for n in low)})
