"""Episodes as a trained agent leaves them, made in any number: a task, turns with a tool between them, and a verdict.

Nothing is sampled and no environment is asked, so that what the record costs can be told apart from what it records.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from rollwright.record import (
    Group,
    NamedValue,
    Origin,
    RewardComponent,
    Sampling,
    ScoredTrajectory,
    Segment,
    Task,
    TerminalReason,
    TokenSpan,
    ToolCall,
    Trajectory,
    Verdict,
    ids,
    logprobs,
    trajectory_id_of,
)

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
VOCABULARY: Final = 384
_SAMPLING: Final = Sampling()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the episodes of a step look like."""

    num_tokens: int
    """At least this many in all rows together."""
    group_size: int = 8
    num_sources: int = 1
    prompt_tokens: int = 48
    turn_tokens: float = 24.0
    """Median of a turn's length, which is log-normal."""
    max_turns: int = 3
    turn_limit: int = 256
    spread: float = 0.6
    """Deviation of the logarithm of a turn's length."""
    vocabulary: int = VOCABULARY
    paid: Literal["by chance", "every second"] = "by chance"
    """By a chance that is drawn for each group, or every second member of each."""
    seed: int = 0


def made_groups(shape: Shape) -> tuple[Group, ...]:
    """Whole groups with as many tokens as asked, the last group over the border; a function of the shape alone."""
    return tuple(_groups(shape))


def num_tokens_of(groups: tuple[Group, ...]) -> int:
    """Tokens of all rows."""
    return sum(m.trajectory.num_tokens for group in groups for m in group.members)


def _groups(shape: Shape) -> Iterator[Group]:
    draws = np.random.default_rng(shape.seed)
    made, number = 0, 0
    while made < shape.num_tokens:
        source = f"source-{number % shape.num_sources:03d}"
        task = Task(
            task_id=f"{source}/{number:016x}", source=source, revision="1", split="train", payload='{"answer":"7"}'
        )
        prompt = ids(draws.integers(0, shape.vocabulary, shape.prompt_tokens))
        chance = draws.uniform(0, 1)
        members = tuple(_member(shape, task, number, slot, prompt, chance, draws) for slot in range(shape.group_size))
        yield Group(group_id=number, task=task, size=shape.group_size, members=members)
        made += sum(m.trajectory.num_tokens for m in members)
        number += 1


def _member(
    shape: Shape,
    task: Task,
    group: int,
    slot: int,
    prompt: NDArray[np.int32],
    chance: float,
    draws: np.random.Generator,
) -> ScoredTrajectory:
    name = trajectory_id_of("train", group, slot, 0)
    segments, calls = _turns(shape, name, prompt, draws)
    reward = float(draws.uniform() < chance if shape.paid == "by chance" else slot % 2)
    trajectory = Trajectory(
        trajectory_id=name,
        purpose="train",
        stage="rl",
        group_id=group,
        slot=slot,
        attempt=0,
        task=task,
        environment="tool",
        environment_revision="1",
        sandbox_profile=None,
        reset_seed=group,
        initial_state_hash=None,
        rendering_revision="1",
        lineage=None,
        parent_trajectory_id=None,
        terminal_reason=TerminalReason.MODEL_END,
        failure_class=None,
        failure_cause=None,
        segments=segments,
        tool_calls=calls,
        artifacts={},
        started_at=NOON,
        ended_at=NOON,
        queue_s=0.0,
        sampling_s=0.1,
        tools_s=0.01,
    )
    verdict = Verdict(
        trajectory_id=name,
        verifier="exact",
        revision="1",
        scope="trajectory",
        outcome=reward,
        components=(NamedValue(name="exact", value=reward),),
    )
    return ScoredTrajectory(
        trajectory=trajectory,
        verdicts=(verdict,),
        outcome=reward,
        reward_rule="1",
        reward_components=(RewardComponent(name="exact", value=reward, weight=1.0),),
        verifying_s=0.001,
    )


def _turns(
    shape: Shape, name: str, prompt: NDArray[np.int32], draws: np.random.Generator
) -> tuple[tuple[Segment, ...], tuple[ToolCall, ...]]:
    segments = [
        Segment(segment=0, parent=None, context=0, start=0, origin="task", actor="main", turn=0, token_ids=prompt)
    ]
    calls: list[ToolCall] = []
    num_turns = int(draws.integers(1, shape.max_turns + 1))
    for turn in range(num_turns):
        is_last = turn == num_turns - 1
        segments.append(_said(shape, segments[-1], turn, "stop" if is_last else "tool_call", draws))
        if not is_last:
            call_id = f"{name}/c{turn}"
            calls.append(_call(call_id, turn, len(segments)))
            said: tuple[tuple[Origin, int, str | None], ...] = (
                ("template", 3, None),
                ("tool", 6, call_id),
                ("template", 5, None),
            )
            for origin, tokens, answers in said:
                before = segments[-1]
                segments.append(
                    Segment(
                        segment=len(segments),
                        parent=before.segment,
                        context=0,
                        start=before.start + before.num_tokens,
                        origin=origin,
                        actor="main",
                        turn=turn,
                        token_ids=ids(draws.integers(0, shape.vocabulary, tokens)),
                        call_id=answers,
                    )
                )
    return tuple(segments), tuple(calls)


def _said(shape: Shape, before: Segment, turn: int, finish: str, draws: np.random.Generator) -> Segment:
    length = int(np.clip(draws.lognormal(np.log(shape.turn_tokens), shape.spread), 2, shape.turn_limit))
    thought = length // 2
    kind = "tool_call" if finish == "tool_call" else "answer"
    return Segment(
        segment=before.segment + 1,
        parent=before.segment,
        context=0,
        start=before.start + before.num_tokens,
        origin="policy",
        actor="main",
        turn=turn,
        token_ids=ids(draws.integers(0, shape.vocabulary, length)),
        behavior_logprobs=logprobs(-draws.exponential(0.5, length)),
        policy="policy",
        policy_version=0,
        cache_version=0,
        sampling=_SAMPLING,
        spans=(
            TokenSpan(kind="reasoning", token_start=0, token_end=thought),
            TokenSpan(kind=kind, token_start=thought, token_end=length - 1),
            TokenSpan(kind="stop", token_start=length - 1, token_end=length),
        ),
        finish=finish,
    )


def _call(call_id: str, turn: int, asked_after: int) -> ToolCall:
    return ToolCall(
        call_id=call_id,
        asked_in=asked_after - 1,
        answered_in=asked_after + 1,
        turn=turn,
        tool="calculator",
        tool_revision="1",
        arguments='{"expression":"3+4"}',
        status="ok",
        result="7",
        result_sha256=None,
        result_bytes=1,
        retention="inline",
        started_at=NOON,
        latency_s=0.001,
    )
