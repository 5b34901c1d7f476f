"""Several pools of tasks drawn by weight, and the held-out list that is fixed before a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rollwright.record import Task, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import payload_of, question_key
from rollwright.tasks.source import UNSTATED, Provenance, TaskSource

__all__ = ["HeldOut", "Mixture", "Stratum", "stratum_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """One pool of a mixture with its weight in the draw."""

    name: str
    weight: float
    """Relative to the other strata; it acts on dispatch, not on the loss."""
    train: tuple[Task, ...]
    held_out: tuple[Task, ...]
    provenance: Provenance = UNSTATED

    def __post_init__(self) -> None:
        """Refuse a stratum that cannot be drawn from."""
        if not 0 < self.weight < float("inf"):
            raise TaskError(
                f"stratum {self.name} has weight {self.weight}; it must be above 0, or the stratum left out"
            )
        if not self.train:
            raise TaskError(f"stratum {self.name} has no training task")


def stratum_of(source: TaskSource, weight: float) -> Stratum:
    """A whole source as one stratum."""
    return Stratum(
        name=source.name,
        weight=weight,
        train=source.train,
        held_out=source.held_out,
        provenance=source.provenance,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """The tasks of an evaluation, in order; fixed before the run and never trained on."""

    tasks: tuple[Task, ...]

    @property
    def sha256(self) -> str:
        """A digest of the ids and revisions, in order."""
        return digest([[task.task_id, task.revision] for task in self.tasks])


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Strata whose training questions are disjoint from all held-out questions."""

    strata: tuple[Stratum, ...]

    def __post_init__(self) -> None:
        """Refuse repeated names or ids, and questions that train in one stratum and are held out in another."""
        names = [stratum.name for stratum in self.strata]
        if not names or len(names) != len(set(names)):
            raise TaskError(f"a mixture needs strata with different names; it has {names}")
        trained = {question_key(payload_of(t)): s.name for s in self.strata for t in s.train}
        for stratum in self.strata:
            for task in stratum.held_out:
                side = trained.get(question_key(payload_of(task)))
                if side is not None:
                    raise TaskError(
                        f"task {task.task_id} is held out in {stratum.name} and trained in {side}; "
                        "use the same held-out share in both, or remove it from one"
                    )
        ids = [task.task_id for stratum in self.strata for task in (*stratum.train, *stratum.held_out)]
        if len(ids) != len(set(ids)):
            repeated = next(i for i in ids if ids.count(i) > 1)
            raise TaskError(f"task {repeated} stands in the mixture twice; name the sources apart or drop the repeat")

    @property
    def revision(self) -> str:
        """A digest of the strata, their weights and all their tasks."""
        return digest(
            [[s.name, s.weight, [t.task_id for t in s.train], [t.task_id for t in s.held_out]] for s in self.strata]
        )

    def hold_out(self, num_tasks: int, *, seed: int = 0) -> HeldOut:
        """The held-out list: each stratum by its weight; what a small one cannot give, the others do.

        Args:
            num_tasks: how many tasks in all.
            seed: of the choice within each stratum.

        Raises:
            TaskError: where all strata together hold fewer.
        """
        room = {s.name: len(s.held_out) for s in self.strata}
        if sum(room.values()) < num_tasks or num_tasks < 1:
            raise TaskError(
                f"{num_tasks} held-out tasks are wanted and {sum(room.values())} are there ({room}); "
                "ask for fewer, or hold out a larger share"
            )
        quotas = _quotas(self.strata, num_tasks, room)
        chosen: list[Task] = []
        for stratum in self.strata:
            shuffled = sorted(stratum.held_out, key=lambda task: seed_of(seed, "hold_out", task.task_id))
            chosen.extend(shuffled[: quotas[stratum.name]])
        return HeldOut(tasks=tuple(chosen))

    def trained(self, num_tasks: int, *, seed: int = 0) -> tuple[Task, ...]:
        """Tasks of the training split, chosen as the held-out list is: to see what was learned by heart.

        Args:
            num_tasks: how many tasks in all.
            seed: of the choice within each stratum.

        Raises:
            TaskError: where all strata together train on fewer.
        """
        room = {s.name: len(s.train) for s in self.strata}
        if sum(room.values()) < num_tasks or num_tasks < 1:
            raise TaskError(f"{num_tasks} training tasks are wanted and {sum(room.values())} are there; ask for fewer")
        quotas = _quotas(self.strata, num_tasks, room)
        return tuple(
            task
            for stratum in self.strata
            for task in sorted(stratum.train, key=lambda t: seed_of(seed, "trained", t.task_id))[: quotas[stratum.name]]
        )


def _quotas(strata: Sequence[Stratum], num_tasks: int, room: Mapping[str, int]) -> dict[str, int]:
    """Give out one place at a time to the stratum that is furthest below its share and has tasks left."""
    given = {stratum.name: 0 for stratum in strata}
    for _ in range(num_tasks):
        open_ones = [s for s in strata if given[s.name] < room[s.name]]
        furthest = min(open_ones, key=lambda s: (given[s.name] + 1) / s.weight)
        given[furthest.name] += 1
    return given
