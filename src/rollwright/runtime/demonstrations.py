"""The collectors that sample nothing: demonstrations made by the environment, and batches of a stored run."""

import asyncio
from collections.abc import Callable, Sequence

from rollwright.record import Group, ScoredTrajectory, unscored
from rollwright.runtime.errors import RuntimeRunError
from rollwright.runtime.ledger import Ledger, member_change
from rollwright.runtime.parts import Attempt, Collected, CollectorState, EpisodeFn, GroupCounter
from rollwright.tasks import TaskOrder

__all__ = ["DemonstrationCollector", "StoredCollector"]


class DemonstrationCollector:
    """A batch is `batch_size` demonstrations, each a group of one without ledger row."""

    def __init__(
        self, *, stage: str, batch_size: int, order: TaskOrder, counter: GroupCounter, run_episode: EpisodeFn
    ) -> None:
        """Store the parts; `run_episode` plays what the environment demonstrates."""
        self._stage = stage
        self._batch_size = batch_size
        self._order = order
        self._drawn: list[int] = []
        self._steps = 0
        self._counter = counter
        self._run_episode = run_episode

    @property
    def needs_policy(self) -> bool:
        """Demonstrations are played, not sampled."""
        return False

    async def run(self) -> None:
        """Nothing runs in the background."""

    async def collect(self, step: int) -> Collected:
        """Play the next demonstrations."""
        draws = [self._order.draw() for _ in range(self._batch_size)]
        self._drawn = [draw.number for draw in draws]
        attempts = [
            Attempt(
                purpose="demonstration",
                stage=self._stage,
                group_id=self._counter.take(),
                slot=0,
                attempt=0,
                task=draw.task,
            )
            for draw in draws
        ]
        async with asyncio.TaskGroup() as episodes:
            running = [episodes.create_task(self._play(a), name=f"demonstration {a.group_id}") for a in attempts]
        return Collected(groups=tuple(task.result() for task in running), others=())

    async def _play(self, attempt: Attempt) -> Group:
        trajectory = await self._run_episode(attempt)
        if not trajectory.terminal_reason.is_trainable:
            raise RuntimeRunError(
                f"the demonstration of task {attempt.task.task_id} ended with {trajectory.terminal_reason}: "
                f"{trajectory.failure_cause}. A demonstration must run through its own environment; mend it."
            )
        member = unscored(trajectory, "demonstration")
        return Group(group_id=attempt.group_id, task=attempt.task, size=1, members=(member,))

    def settle(self, step: int, groups: Sequence[Group]) -> None:
        """Note the demonstrations as seen; they have no ledger rows."""
        for number in self._drawn:
            self._order.settle(number)
        self._steps += 1

    def leftovers(self) -> tuple[ScoredTrajectory, ...]:
        """Everything is in its batch."""
        return ()

    def advance(self) -> None:
        """Nothing waits for a version."""

    def state(self) -> CollectorState:
        """The place in the order of tasks."""
        return CollectorState(steps=self._steps, order=self._order.state())

    def restore(self, state: CollectorState) -> None:
        """Go on from what was saved."""
        assert state.order is not None, "a stage of demonstrations saves its place in the order of tasks"
        self._steps = state.steps
        self._order.restore(state.order)


class StoredCollector:
    """Gives the batches of a stored run again, with their ids."""

    def __init__(
        self,
        *,
        read: Callable[[int], Sequence[Group]],
        counter: GroupCounter,
        ledger: Ledger,
    ) -> None:
        """`read` gives the groups that a step of the source consumed."""
        self._read = read
        self._counter = counter
        self._ledger = ledger

    @property
    def needs_policy(self) -> bool:
        """What is stored was sampled before."""
        return False

    async def run(self) -> None:
        """Nothing runs in the background."""

    async def collect(self, step: int) -> Collected:
        """The groups of `step`, in their order."""
        groups = tuple(await asyncio.to_thread(self._read, step))
        if not groups:
            raise RuntimeRunError(
                f"the stored run has no batch for step {step}; it ends earlier. Set run.steps to what it holds."
            )
        for group in groups:
            self._counter.skip_past(group.group_id)
            for member in group.members:
                if member.trajectory.purpose == "train":
                    for state in ("in_flight", "ready"):
                        self._ledger.enter(member_change(member, state, step=step, version=step - 1))
        return Collected(groups=groups, others=())

    def leftovers(self) -> tuple[ScoredTrajectory, ...]:
        """Everything is in its batch."""
        return ()

    def advance(self) -> None:
        """Nothing waits for a version."""

    def settle(self, step: int, groups: Sequence[Group]) -> None:
        """Note the batch in the ledger."""
        for group in groups:
            for member in group.members:
                if member.trajectory.purpose == "train":
                    self._ledger.enter(member_change(member, "trained", step=step, version=step - 1))

    def state(self) -> CollectorState:
        """The step alone is the cursor."""
        return CollectorState()

    def restore(self, state: CollectorState) -> None:
        """The step alone is the cursor."""
