"""Parts of a loop without a model: episodes that end as told, and their scores."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from rollwright.record import (
    RewardComponent,
    Sampling,
    ScoredTrajectory,
    Segment,
    Task,
    TerminalReason,
    ToolCall,
    Trajectory,
    trajectory_id_of,
)
from rollwright.runtime.parts import Attempt
from rollwright.tasks import Mixture, Stratum, TaskOrder

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CallStatus = Literal["ok", "tool_error", "invalid_call", "timeout", "limit", "refused"]


def noon() -> datetime:
    return NOON


def task(number: int) -> Task:
    return Task(
        task_id=f"made/{number:016x}",
        source="made",
        revision="1",
        split="train",
        payload=f'{{"answer":"{number}","info":{{}},"question":"what is {number}?"}}',
    )


def numbered_tasks() -> TaskOrder:
    """Tasks 0 to 99, drawn in an order of their own."""
    stratum = Stratum(name="made", weight=1.0, train=tuple(task(n) for n in range(100)), held_out=())
    return TaskOrder(Mixture(strata=(stratum,)), seed=0)


def ended(
    attempt: Attempt, reason: TerminalReason = TerminalReason.MODEL_END, *, version: int = 0, cause: str | None = None
) -> Trajectory:
    shown = Segment(
        segment=0,
        parent=None,
        context=0,
        start=0,
        origin="task",
        actor="main",
        turn=0,
        token_ids=np.array([1, 2], np.int32),
    )
    said = Segment(
        segment=1,
        parent=0,
        context=0,
        start=2,
        origin="policy",
        actor="main",
        turn=0,
        token_ids=np.array([3], np.int32),
        behavior_logprobs=np.array([-0.5], np.float32),
        policy="policy",
        policy_version=version,
        cache_version=version,
        sampling=Sampling(),
    )
    return Trajectory(
        trajectory_id=trajectory_id_of(attempt.purpose, attempt.group_id, attempt.slot, attempt.attempt),
        purpose=attempt.purpose,
        stage=attempt.stage,
        group_id=attempt.group_id,
        slot=attempt.slot,
        attempt=attempt.attempt,
        task=attempt.task,
        environment="made",
        environment_revision="1",
        sandbox_profile=None,
        reset_seed=0,
        initial_state_hash=None,
        rendering_revision="1",
        lineage=attempt.lineage,
        parent_trajectory_id=attempt.parent_trajectory_id,
        terminal_reason=reason,
        failure_class="infrastructure" if reason is TerminalReason.INFRASTRUCTURE_FAILURE else None,
        failure_cause=cause,
        segments=(shown, said),
        tool_calls=(),
        artifacts={},
        started_at=NOON,
        ended_at=NOON,
        queue_s=0.0,
        sampling_s=0.0,
        tools_s=0.0,
    )


def with_calls(trajectory: Trajectory, statuses: Sequence[CallStatus], *, tools: Sequence[str] = ()) -> Trajectory:
    """The trajectory with one call a status, of the calculator unless `tools` names others."""
    names = tools or ["calculator"] * len(statuses)
    calls = [_call(trajectory, n, tool, s) for n, (tool, s) in enumerate(zip(names, statuses, strict=True))]
    return replace(trajectory, tool_calls=tuple(calls))


def _call(trajectory: Trajectory, number: int, tool: str, status: CallStatus) -> ToolCall:
    return ToolCall(
        call_id=f"{trajectory.trajectory_id}/c{number}",
        asked_in=1,
        answered_in=None,
        turn=0,
        tool=tool,
        tool_revision="1",
        arguments="{}",
        status=status,
        result=None,
        result_sha256=None,
        result_bytes=0,
        retention="dropped",
        started_at=NOON,
        latency_s=0.5,
    )


def demonstrated(attempt: Attempt) -> Trajectory:
    """What the environment plays: the same turn, written by nobody's policy."""
    made = ended(attempt)
    shown, said = made.segments
    played = Segment(
        segment=1,
        parent=0,
        context=0,
        start=said.start,
        origin="demonstration",
        actor="main",
        turn=0,
        token_ids=said.token_ids,
    )
    return replace(made, segments=(shown, played))


async def score(trajectories: Sequence[Trajectory]) -> Sequence[ScoredTrajectory]:
    return [
        ScoredTrajectory(
            trajectory=t,
            verdicts=(),
            outcome=float(t.slot % 2),
            reward_rule="made",
            reward_components=(RewardComponent(name="parity", value=float(t.slot % 2), weight=1.0),),
            verifying_s=0.0,
        )
        for t in trajectories
    ]


def episodes(end: Callable[[Attempt], Trajectory], *, shuffle: int | None = None):
    """An EpisodeFn that ends attempts in a shuffled order."""
    chance = np.random.default_rng(shuffle)

    async def run(attempt: Attempt) -> Trajectory:
        for _ in range(int(chance.integers(0, 5)) if shuffle is not None else 0):
            await asyncio.sleep(0)
        return end(attempt)

    return run
