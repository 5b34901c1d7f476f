"""What an episode leaves: a forest of segments, and what was said of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from rollwright.record.environment import Task
from rollwright.record.errors import RecordError
from rollwright.record.rows import Segment, ToolCall
from rollwright.record.verifier import Verdict

__all__ = [
    "FailureClass",
    "Group",
    "Lineage",
    "Purpose",
    "RewardComponent",
    "ScoredTrajectory",
    "TerminalReason",
    "Trajectory",
    "branches",
    "context_segments",
    "is_eligible",
    "trajectory_id_of",
    "unscored",
]

Purpose = Literal["train", "evaluation", "demonstration", "audit"]
FailureClass = Literal["task", "infrastructure", "grading", "abandoned"]
Lineage = Literal["retry_of", "forked_from", "resumed_from", "replay_of"]


class TerminalReason(StrEnum):
    """Why an episode ended, with what it means for learning."""

    MODEL_END = "model_end"
    ENVIRONMENT_SUCCESS = "environment_success"
    ENVIRONMENT_FAILURE = "environment_failure"
    TOKEN_LIMIT = "token_limit"
    TURN_LIMIT = "turn_limit"
    WALL_CLOCK_LIMIT = "wall_clock_limit"
    CONTEXT_LIMIT = "context_limit"
    SAFETY_STOP = "safety_stop"
    INFRASTRUCTURE_FAILURE = "infrastructure_failure"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"

    @property
    def is_truncated(self) -> bool:
        """True where a limit cut the episode: a value may bootstrap (M105)."""
        return self in (
            TerminalReason.TOKEN_LIMIT,
            TerminalReason.TURN_LIMIT,
            TerminalReason.WALL_CLOCK_LIMIT,
            TerminalReason.CONTEXT_LIMIT,
        )

    @property
    def is_trainable(self) -> bool:
        """True where the episode may be scored and trained."""
        return self not in (TerminalReason.INFRASTRUCTURE_FAILURE, TerminalReason.ABORTED, TerminalReason.SUPERSEDED)


def trajectory_id_of(purpose: Purpose, group_id: int, slot: int, attempt: int) -> str:
    """`t000123-04-0`: purpose's first letter, group, slot, attempt. Counters, never clock or chance."""
    return f"{purpose[0]}{group_id:06d}-{slot:02d}-{attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardComponent:
    """One raw part of a reward, with the weight it was given."""

    name: str
    value: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trajectory:
    """An episode as the driver leaves it: every episode ends as one."""

    trajectory_id: str
    purpose: Purpose
    stage: str
    group_id: int
    slot: int
    attempt: int
    task: Task
    environment: str
    environment_revision: str
    sandbox_profile: str | None
    reset_seed: int
    initial_state_hash: str | None
    rendering_revision: str
    lineage: Lineage | None
    parent_trajectory_id: str | None
    terminal_reason: TerminalReason
    failure_class: FailureClass | None
    failure_cause: str | None
    segments: tuple[Segment, ...]
    tool_calls: tuple[ToolCall, ...]
    artifacts: Mapping[str, bytes]
    turn_rewards: tuple[Verdict, ...] = ()
    """What the environment paid within the episode: verdicts of scope turn."""
    started_at: datetime
    ended_at: datetime
    queue_s: float
    sampling_s: float
    tools_s: float
    cost: float | None = None

    def __post_init__(self) -> None:
        """Refuse segments that do not form a forest of growing contexts."""
        ends: dict[int, int] = {}
        for index, segment in enumerate(self.segments):
            if segment.segment != index:
                raise RecordError(
                    f"{self.trajectory_id}: segment {segment.segment} stands at place {index}; segments are numbered "
                    "from 0 in the order they were made."
                )
            if segment.parent is None:
                due = 0
            elif segment.parent in ends:
                due = ends[segment.parent]
            else:
                raise RecordError(
                    f"{self.trajectory_id}: segment {index} has parent {segment.parent}; a parent "
                    "is an earlier segment."
                )
            if segment.start != due:
                raise RecordError(
                    f"{self.trajectory_id}: segment {index} starts at {segment.start}; its parent ends at {due}."
                )
            ends[index] = due + segment.num_tokens

    @property
    def num_turns(self) -> int:
        """Turns of the policy in which anything was sampled or demonstrated."""
        return len({(s.actor, s.turn) for s in self.segments if s.origin in ("policy", "demonstration", "teacher")})

    @property
    def num_tokens(self) -> int:
        """All tokens of all segments, each once."""
        return sum(s.num_tokens for s in self.segments)

    @property
    def num_action_tokens(self) -> int:
        """Tokens that a policy sampled or a demonstration showed as an action."""
        return sum(s.num_tokens for s in self.segments if s.origin in ("policy", "demonstration"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredTrajectory:
    """A trajectory with what the verifiers said; `outcome` is the reward, or why there is none."""

    trajectory: Trajectory
    verdicts: tuple[Verdict, ...]
    outcome: float | str
    reward_rule: str
    """The composition's revision."""
    reward_components: tuple[RewardComponent, ...]
    verifying_s: float

    @property
    def trajectory_id(self) -> str:
        """Of the trajectory."""
        return self.trajectory.trajectory_id


def unscored(trajectory: Trajectory, reason: str) -> ScoredTrajectory:
    """A trajectory that nothing judged, with why: its terminal reason, or `demonstration`."""
    return ScoredTrajectory(
        trajectory=trajectory,
        verdicts=(),
        outcome=reason,
        reward_rule="none",
        reward_components=(),
        verifying_s=0.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Attempts at one task from one dispatch, by slot, without those that failed for good."""

    group_id: int
    task: Task
    size: int
    """Slots that were dispatched; `members` may be fewer."""
    members: tuple[ScoredTrajectory, ...]

    def __post_init__(self) -> None:
        """Refuse members of another group or in disorder."""
        slots = [m.trajectory.slot for m in self.members]
        if slots != sorted(set(slots)) or any(m.trajectory.group_id != self.group_id for m in self.members):
            raise RecordError(
                f"group {self.group_id} has members of slots {slots} and groups "
                f"{sorted({m.trajectory.group_id for m in self.members})}; it holds one member a slot, in order, of "
                "its own."
            )


def branches(segments: Sequence[Segment]) -> tuple[tuple[int, ...], ...]:
    """Paths from root to leaf, each one training sequence, ordered by leaf segment.

    Args:
        segments: of one trajectory, in order.

    Returns:
        A tuple of segment numbers for each leaf.
    """
    parents = {s.parent for s in segments}
    paths: list[tuple[int, ...]] = []
    for leaf in segments:
        if leaf.segment not in parents:
            path = [leaf.segment]
            while (parent := segments[path[-1]].parent) is not None:
                path.append(parent)
            paths.append(tuple(reversed(path)))
    return tuple(paths)


def context_segments(segments: Sequence[Segment], segment: int) -> tuple[Segment, ...]:
    """The path from the root to `segment`, itself included: exactly what it was sampled behind."""
    path = [segments[segment]]
    while (parent := path[-1].parent) is not None:
        path.append(segments[parent])
    return tuple(reversed(path))


def is_eligible(segment: Segment, pairs: frozenset[tuple[str, str | None]]) -> bool:
    """True where an objective that trains these (origin, policy) pairs trains the segment's tokens."""
    return (segment.origin, segment.policy) in pairs
