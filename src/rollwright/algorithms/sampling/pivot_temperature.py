"""One sampling temperature a task, drawn from what is known of its success rate (PTGS, M100).

    pivot of the step ─► draw a success rate ─► temperature of the group ─► outcomes ─► discounted counts of the task

The temperature belongs to the group: every turn of every attempt is sampled at it, and every score of their tokens is
taken at it. Evaluation keeps its own. Outcomes are counted before any filter, one for each trajectory.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.sampling.ramps import geometric_ramp

__all__ = [
    "PivotSettings",
    "PivotTemperatures",
    "TaskCounts",
    "beta_parameters",
    "discount_counts",
    "temperature_of_rate",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PivotSettings:
    """Numbers of the method, with those of its public code as defaults."""

    total_steps: int
    """Over which the pivot rises; it stays afterwards."""
    start: float = 0.25
    """Pivot of step 0: the success rate that is sampled at the reference temperature."""
    end: float = 0.5
    tau: float = 1.5
    """Temperature, relative to the reference, of a task that is never solved; 1/tau of one that always is."""
    reference: float = 1.0
    decay: float = 0.95
    """Of a task's counts each time it is seen."""

    def __post_init__(self) -> None:
        """Refuse pivots that divide by zero."""
        if not (0 < self.start < 1 and 0 < self.end < 1):
            raise ObjectiveError(f"the pivot goes from {self.start} to {self.end}; both lie between 0 and 1.")
        if self.tau <= 0 or self.reference <= 0 or not 0 <= self.decay <= 1:
            raise ObjectiveError(
                f"tau is {self.tau}, reference {self.reference}, decay {self.decay}; tau and reference are above 0 and "
                "decay between 0 and 1."
            )

    def pivot(self, step: int) -> float:
        """The pivot q of a step, counted from 0: a geometric ramp."""
        return geometric_ramp(step, start=self.start, end=self.end, steps=self.total_steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCounts:
    """Discounted outcomes of one task."""

    successes: float = 0.0
    failures: float = 0.0
    draws: int = 0
    """Temperatures that were drawn for it."""


def temperature_of_rate(
    rates: ArrayLike, *, pivot: float, tau: float = 1.5, reference: float = 1.0
) -> NDArray[np.float64]:
    """reference·tau^h with h = (q − p)/q up to the pivot q and (q − p)/(1 − q) beyond it.

    Args:
        rates: p in [0, 1], any shape; a drawn success rate.
        pivot: q in (0, 1).
        tau: factor at p = 0.
        reference: temperature at p = q.

    Returns:
        float64 temperatures between reference/tau and reference·tau.
    """
    p = np.asarray(rates, np.float64)
    if not 0 < pivot < 1 or not ((p >= 0) & (p <= 1)).all():
        raise ObjectiveError(f"rates {p.tolist()} at pivot {pivot}; rates are in [0, 1] and the pivot within (0, 1).")
    return reference * tau ** ((pivot - p) / np.where(p <= pivot, pivot, 1.0 - pivot))


def beta_parameters(counts: TaskCounts, *, pivot: float) -> tuple[float, float]:
    """(2q + s, 2(1 − q) + f) of the Beta that a success rate is drawn from: the prior is worth two attempts."""
    return 2.0 * pivot + counts.successes, 2.0 * (1.0 - pivot) + counts.failures


def discount_counts(counts: TaskCounts, *, successes: int, attempts: int, decay: float = 0.95) -> TaskCounts:
    """Set s to γs + successes and f to γf + failures after a group of scored attempts; none of them changes nothing."""
    if not 0 <= successes <= attempts:
        raise ObjectiveError(f"{successes} successes in {attempts} attempts; successes lie between 0 and the attempts.")
    if not attempts:
        return counts
    return TaskCounts(
        successes=decay * counts.successes + successes,
        failures=decay * counts.failures + (attempts - successes),
        draws=counts.draws,
    )


class PivotTemperatures:
    """Draws temperatures and takes outcomes; its state is the counts, and a draw depends on no other task's."""

    def __init__(self, settings: PivotSettings, *, seed: int) -> None:
        self._settings = settings
        self._seed = seed
        self._counts: dict[str, TaskCounts] = {}

    def draw(self, task_id: str, *, step: int) -> float:
        """The temperature of the task's next group, from the pivot of that step.

        Args:
            task_id: stable over the run, never the text of a prompt.
            step: counted from 0.
        """
        counts = self._counts.get(task_id, TaskCounts())
        pivot = self._settings.pivot(step)
        key = hashlib.blake2b(f"{self._seed}/{task_id}/{counts.draws}".encode(), digest_size=16).digest()
        generator = np.random.Generator(np.random.PCG64(int.from_bytes(key, "big")))
        rate = generator.beta(*beta_parameters(counts, pivot=pivot))
        self._counts[task_id] = TaskCounts(successes=counts.successes, failures=counts.failures, draws=counts.draws + 1)
        settings = self._settings
        return float(temperature_of_rate(rate, pivot=pivot, tau=settings.tau, reference=settings.reference))

    def observe(self, task_id: str, *, successes: int, attempts: int) -> None:
        """Take the outcomes of a group that was drawn for.

        Args:
            task_id: of the draw.
            successes: trajectories that succeeded.
            attempts: trajectories that were scored, before groups are filtered.
        """
        if task_id not in self._counts:
            raise ObjectiveError(f"task {task_id} has outcomes and no temperature was drawn for it; draw first.")
        self._counts[task_id] = discount_counts(
            self._counts[task_id], successes=successes, attempts=attempts, decay=self._settings.decay
        )

    def state(self) -> Mapping[str, TaskCounts]:
        """Counts of every task that was drawn for; with settings and seed, all that is needed to go on."""
        return dict(self._counts)

    def restore(self, state: Mapping[str, TaskCounts]) -> None:
        """Go on from counts that `state` gave."""
        self._counts = dict(state)
