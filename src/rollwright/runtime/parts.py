"""What the wiring hands to the loop: episodes, scores, tasks and a learner, each behind a small face."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from rollwright.algorithms import Objective
from rollwright.algorithms.diagnostics.updates import Diagnostic
from rollwright.batches import ReferenceScores, StepBatch, UpdateOutcome, UpdatePlan
from rollwright.record import (
    Group,
    LedgerState,
    Lineage,
    Purpose,
    ScoredTrajectory,
    Task,
    Trajectory,
    WeightsManifest,
)
from rollwright.rollout import Interruption, Parked

__all__ = [
    "Attempt",
    "Collected",
    "Collector",
    "CollectorState",
    "EpisodeFn",
    "GroupCounter",
    "Learner",
    "LegFn",
    "OpenGroup",
    "ScoreFn",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at one slot of one dispatched group."""

    purpose: Purpose
    stage: str
    group_id: int
    slot: int
    attempt: int
    task: Task
    lineage: Lineage | None = None
    parent_trajectory_id: str | None = None
    past: Parked | None = None
    """The parked episode that it goes on with; None where it begins at the task."""
    at_limit: Literal["end", "park"] = "end"
    """What tokens or turns that run out do to it."""
    interruption: Interruption = field(default_factory=Interruption, compare=False)
    """Ends it from outside: superseded, it is parked; aborted, it is over."""


EpisodeFn = Callable[[Attempt], Awaitable[Trajectory]]
"""Runs an attempt; every episode ends as a trajectory, failures included."""

LegFn = Callable[[Attempt], Awaitable[Trajectory | Parked]]
"""Runs an attempt that may go on with a parked episode and, where it parks at limits, may leave one."""

ScoreFn = Callable[[Sequence[Trajectory]], Awaitable[Sequence[ScoredTrajectory]]]
"""Scores the finished members of one group, in the order given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGroup:
    """A dispatched group that had not come to its end: after a restart its draw is dispatched again, as a new group."""

    group_id: int
    draw: int
    """Its number in the order of tasks."""
    policy_version: int
    attempts: tuple[int, ...]
    """The newest of each slot."""
    states: tuple[LedgerState | None, ...]
    """Of each slot in the ledger: in flight, ready or failed; None where it came to its end alone."""
    rule: str
    """Why it is dispatched again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorState:
    """Where a collector stands after a settled step."""

    trained_slots: int = 0
    """Since the stage's start; a batch that stayed smaller counts whole."""
    steps: int = 0
    """Since the stage's start."""
    order: Mapping[str, int] | None = None
    """The cursor of the task order; None where tasks are not drawn."""
    open_groups: tuple[OpenGroup, ...] = ()
    """In order of their draws, which the cursor holds as pending."""
    owed: Mapping[str, float] | None = None
    """Groups that each source is owed; None where the order of tasks says whose turn it is."""

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "CollectorState":
        """Read what `dataclasses.asdict` and JSON made of a state; keys that an older run did not write are empty."""
        groups = tree.get("open_groups", ())
        return cls(
            trained_slots=tree["trained_slots"],
            steps=tree["steps"],
            order=tree["order"],
            open_groups=tuple(
                OpenGroup(
                    group_id=group["group_id"],
                    draw=group["draw"],
                    policy_version=group["policy_version"],
                    attempts=tuple(group["attempts"]),
                    states=tuple(group["states"]),
                    rule=group["rule"],
                )
                for group in groups
            ),
            owed=tree.get("owed"),
        )


class GroupCounter:
    """Hands out group ids: one counter for all purposes of a run."""

    def __init__(self, first: int = 0) -> None:
        """Count from `first`."""
        self._next = first

    def take(self) -> int:
        """A fresh id."""
        self._next += 1
        return self._next - 1

    def skip_past(self, group_id: int) -> None:
        """Never hand out an id up to `group_id`: a stored group has it."""
        self._next = max(self._next, group_id + 1)

    @property
    def next_id(self) -> int:
        """What `take` gives next."""
        return self._next


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Collected:
    """A batch of whole groups, and everything else that ended meanwhile."""

    groups: tuple[Group, ...]
    others: tuple[ScoredTrajectory, ...]
    """Failed and parked attempts, filtered and expired episodes: recorded, never trained."""
    measures: tuple[Diagnostic, ...] = ()
    """What the collector counted since the last batch: metrics of the step."""

    @property
    def members(self) -> tuple[ScoredTrajectory, ...]:
        """Of all groups."""
        return tuple(member for group in self.groups for member in group.members)


class Collector(Protocol):
    """Gives the loop its batches, one a step."""

    @property
    def needs_policy(self) -> bool:
        """True where the engine samples from the newest weights."""
        ...

    async def run(self) -> None:
        """Work in the background until cancelled; may return at once."""
        ...

    async def collect(self, step: int) -> Collected:
        """Wait for the batch of `step`."""
        ...

    def settle(self, step: int, groups: Sequence[Group]) -> None:
        """The batch of `step` was trained: note it in the ledger and the cursor."""
        ...

    def leftovers(self) -> tuple[ScoredTrajectory, ...]:
        """What ended and belongs to no batch, where a run stops for want of progress."""
        ...

    def advance(self) -> None:
        """The step is saved and its weights serve: let the next groups start."""
        ...

    def state(self) -> CollectorState:
        """What to save with the step."""
        ...

    def restore(self, state: CollectorState) -> None:
        """Go on from what was saved."""
        ...


class Learner(Protocol):
    """The learner as the loop sees it; every call blocks and runs in the learner's thread."""

    def score_before_credit(self, draft: StepBatch, objective: Objective) -> StepBatch:
        """The laid-out batch with the streams that the objective's credit reads; itself where it reads none."""
        ...

    def train(
        self, batch: StepBatch, objective: Objective, *, first_update: int
    ) -> Sequence[tuple[UpdatePlan, UpdateOutcome]]:
        """Make the updates of one step; the objective's controllers observe each of them before the next."""
        ...

    def score_reference(self, batch: StepBatch) -> ReferenceScores:
        """A step's trained tokens under the frozen reference, for metrics alone; asked only where a stage said so."""
        ...

    def manifest(self, *, version: int, update: int) -> WeightsManifest:
        """Names, shapes and digests of the weights as they stand."""
        ...

    def weights(self) -> Mapping[str, object]:
        """The weights as they stand."""
        ...

    def snapshot(self) -> Callable[[Path], None]:
        """Weights and training state as they stand, apart from the learner.

        Returns:
            Writes them into an empty folder, which the caller makes durable; from any thread, at any later time.
        """
        ...
