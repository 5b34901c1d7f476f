"""The order in which tasks are drawn for training, and the cursor that survives a restart.

A draw is one use of a task: draw n is the same task in every run with the same mixture and seed. Strata take turns by
weight, so that after any number of draws each has its share within one draw, whatever the episodes take to finish.
Within a stratum an epoch goes through all tasks once, in an order of its own.

    next draw ──► pending ──settle──► done
                     └──── saved in the cursor; handed out first after a restart

A count of draws is not a position: the dispatcher runs ahead of the trainer, and groups finish out of order. So the
cursor holds every draw that is not settled, and after a restart each is handed out once more, under its own number.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from rollwright.record import Task, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.mixture import Mixture, Stratum

__all__ = ["Draw", "TaskOrder"]


_ORDER, _NEXT, _BEGUN, _PENDING = "order", "next", "begun", "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One use of a task."""

    number: int
    """From 0, over the whole run; the same number is the same task."""
    task: Task
    stratum: str
    epoch: int
    """Passes over the stratum that were complete before this draw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """A draw that was handed out and has not been settled."""

    number: int
    stratum: str
    position: int


@dataclass(slots=True, eq=False)
class _Line:
    """One stratum's endless sequence."""

    stratum: Stratum
    seed: int
    begun: int = 0
    epoch: int = -1
    order: Sequence[Task] = field(default_factory=tuple[Task, ...])

    def at(self, position: int) -> tuple[Task, int]:
        epoch, index = divmod(position, len(self.stratum.train))
        if epoch != self.epoch:
            key = {t.task_id: seed_of(self.seed, "epoch", epoch, t.task_id) for t in self.stratum.train}
            self.order = sorted(self.stratum.train, key=lambda task: (key[task.task_id], task.task_id))
            self.epoch = epoch
        return self.order[index], epoch


class TaskOrder:
    """Hands out draws one by one; single-threaded."""

    def __init__(self, mixture: Mixture, *, seed: int) -> None:
        self._fingerprint = int(digest([mixture.revision, seed])[:15], 16)
        self._lines = {s.name: _Line(stratum=s, seed=seed) for s in mixture.strata}
        self._next_number = 0
        self._pending: dict[int, _Pending] = {}
        self._again: deque[int] = deque()

    @property
    def shares(self) -> Mapping[str, float]:
        """Of each stratum in the draws, summing to 1."""
        total = sum(line.stratum.weight for line in self._lines.values())
        return {name: line.stratum.weight / total for name, line in self._lines.items()}

    def draw(self, stratum: str | None = None) -> Draw:
        """The next draw; it stays pending until it is settled.

        Args:
            stratum: whose turn it is; None: the strata take turns by weight. A draw that was handed out before and came
                to no end is always first.

        Raises:
            TaskError: for a stratum that the mixture does not have.
        """
        if self._again:
            return self._draw_of(self._pending[self._again.popleft()])
        if stratum is not None and stratum not in self._lines:
            raise TaskError(f"the mixture has no stratum {stratum}; its strata are {', '.join(self._lines)}")
        if stratum is None:
            line = min(self._lines.values(), key=lambda one: (one.begun + 1) / one.stratum.weight)
        else:
            line = self._lines[stratum]
        pending = _Pending(number=self._next_number, stratum=line.stratum.name, position=line.begun)
        line.begun += 1
        self._next_number += 1
        self._pending[pending.number] = pending
        return self._draw_of(pending)

    def settle(self, number: int) -> None:
        """A draw has come to its end (trained, filtered, expired or failed for good) and is never handed out again.

        Raises:
            TaskError: for a draw that is not pending; each draw is counted once.
        """
        if number not in self._pending or number in self._again:
            raise TaskError(f"draw {number} is not in flight; a draw is settled once, after it was handed out")
        del self._pending[number]

    def give_back(self, number: int) -> None:
        """Hand a draw out again, before new ones: what was dispatched never came to an end.

        Raises:
            TaskError: for a draw that is not in flight.
        """
        if number not in self._pending or number in self._again:
            raise TaskError(f"draw {number} is not in flight; only what was handed out can be given back")
        self._again = deque(sorted((*self._again, number)))

    def take(self) -> Task:
        """The next task, settled at once: for a caller whose own records say what is in flight."""
        drawn = self.draw()
        self.settle(drawn.number)
        return drawn.task

    def state(self) -> Mapping[str, int]:
        """The cursor: names to whole numbers, so that a checkpoint can hold it as JSON."""
        saved = {_ORDER: self._fingerprint, _NEXT: self._next_number}
        saved |= {f"{_BEGUN}/{name}": line.begun for name, line in sorted(self._lines.items())}
        pending = (self._pending[number] for number in sorted(self._pending))
        return saved | {f"{_PENDING}/{one.number}/{one.stratum}": one.position for one in pending}

    def accepts(self, state: Mapping[str, int]) -> bool:
        """True for a cursor of these tasks, weights and seed."""
        return state.get(_ORDER) == self._fingerprint

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on where the cursor stands: first its pending draws, by number, then new ones.

        Raises:
            TaskError: for the cursor of another mixture or seed.
        """
        if not self.accepts(state):
            raise TaskError(
                "the saved place in the task order belongs to other tasks, weights or another seed; "
                "resume with the tasks and the seed that the run started with"
            )
        for name, line in self._lines.items():
            line.begun = state[f"{_BEGUN}/{name}"]
        self._next_number = state[_NEXT]
        self._pending = {}
        for key, position in state.items():
            if key.startswith(f"{_PENDING}/"):
                _, number, stratum = key.split("/", 2)
                self._pending[int(number)] = _Pending(number=int(number), stratum=stratum, position=position)
        self._again = deque(sorted(self._pending))

    def peek(self, count: int) -> tuple[Draw, ...]:
        """The next draws, without taking them."""
        saved, again = self.state(), tuple(self._again)
        drawn = tuple(islice(iter(self.draw, None), count))
        self.restore(saved)
        self._again = deque(again)
        return drawn

    def _draw_of(self, pending: _Pending) -> Draw:
        task, epoch = self._lines[pending.stratum].at(pending.position)
        return Draw(number=pending.number, task=task, stratum=pending.stratum, epoch=epoch)
