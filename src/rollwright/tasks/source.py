"""A source of tasks: what trains and what is held out, disjoint by id and by question."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import metadata

from rollwright.record import Task
from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import HELD_OUT, TRAIN, Payload, is_held_out, make_task, payload_of, question_key

__all__ = [
    "GENERATED",
    "HELD_OUT_SHARE",
    "UNSTATED",
    "Provenance",
    "SplitSizes",
    "TaskSource",
    "fill_splits",
    "license_of",
]

HELD_OUT_SHARE = 0.25
"""Share of all questions of a generator that is never trained on; a constant, so that sides never change."""
_PATIENCE = 2000
"""Drawings in a row without a new task after which a generator counts as exhausted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where the rows of a source come from, as far as it says; "unknown" is what exists and nobody said."""

    license: str = "unknown"
    """SPDX identifier."""
    acquired_on: str | None = "unknown"
    """The day on which the rows were taken; None where a program makes them."""
    generator_model: str | None = "unknown"
    """The model that wrote them; None where none did."""
    dedup_revision: str | None = "unknown"
    """Of what grouped near duplicates; None where a program makes distinct rows."""
    contamination_audit_revision: str | None = "unknown"
    """Of what compared them with what is held out; None where the split of the questions is all that there is."""


UNSTATED = Provenance()
"""Nothing was said."""
GENERATED = Provenance(acquired_on=None, generator_model=None, dedup_revision=None, contamination_audit_revision=None)
"""A program makes the rows, each once; nothing was taken from anywhere."""


def license_of(package: str) -> str:
    """What an installed package states as its license; the rows that its programs make have that."""
    stated = metadata(package)
    return stated["License-Expression"] if "License-Expression" in stated else UNSTATED.license


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSizes:
    """How many distinct tasks are wanted; a small space of questions may hold fewer."""

    train: int
    held_out: int

    def __post_init__(self) -> None:
        """Refuse a source without training tasks."""
        if self.train < 1 or self.held_out < 0:
            raise TaskError(
                f"wanted {self.train} training and {self.held_out} held-out tasks; at least 1 and 0 are needed"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSource:
    """A named, versioned pool with two disjoint splits."""

    name: str
    revision: str
    train: tuple[Task, ...]
    held_out: tuple[Task, ...]
    provenance: Provenance = UNSTATED

    def __post_init__(self) -> None:
        """Refuse repeated tasks, and a question that stands in both splits."""
        ids = [task.task_id for task in (*self.train, *self.held_out)]
        if len(ids) != len(set(ids)):
            raise TaskError(f"source {self.name} holds a task twice; drop the repeats first")
        trained = {question_key(payload_of(task)) for task in self.train}
        if leaked := [t.task_id for t in self.held_out if question_key(payload_of(t)) in trained]:
            raise TaskError(
                f"source {self.name}: {len(leaked)} held-out questions are trained on as well ({leaked[0]} is one); "
                "split by question, or remove them from the training rows"
            )


def fill_splits(
    payloads: Iterable[Payload], sizes: SplitSizes, *, name: str, revision: str, share: float = HELD_OUT_SHARE
) -> TaskSource:
    """Draw from a generator until both splits are full or it yields nothing new.

    Args:
        payloads: may be endless and may repeat itself.
        sizes: distinct tasks wanted in each split.
        name: of the source.
        revision: of what made the payloads.
        share: of the questions that are held out.

    Returns:
        The source, each task once, in the order drawn.
    """
    found: dict[str, dict[str, Task]] = {TRAIN: {}, HELD_OUT: {}}
    wanted = {TRAIN: sizes.train, HELD_OUT: sizes.held_out}
    asked: set[str] = set()
    stale = 0
    for payload in payloads:
        key, split = question_key(payload), HELD_OUT if is_held_out(payload, share) else TRAIN
        stale += 1
        if key not in asked and len(found[split]) < wanted[split]:
            asked.add(key)
            task = make_task(payload, source=name, revision=revision, split=split)
            found[split][task.task_id] = task
            stale = 0
        if stale > _PATIENCE or all(len(found[side]) >= wanted[side] for side in wanted):
            break
    if not found[TRAIN]:
        raise TaskError(f"source {name} yields no training task; make its parameters wider")
    return TaskSource(
        name=name, revision=revision, train=tuple(found[TRAIN].values()), held_out=tuple(found[HELD_OUT].values())
    )
