"""Trajectories through the codec and Parquet and back: token ids, scores and masks, bit for bit."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rollwright.batches.masking import action_mask, tool_mask
from rollwright.record import (
    Sampling,
    ScoredTrajectory,
    Segment,
    Task,
    TerminalReason,
    ToolCall,
    Trajectory,
    ids,
    logprobs,
    trajectory_id_of,
)
from rollwright.record.codec import decode_trajectories, encode_trajectories

__all__ = ["drawn_trajectories", "round_trip_faults"]

_ELIGIBLE: frozenset[tuple[str, str | None]] = frozenset({("policy", "policy")})
_AT = datetime(2026, 1, 1, tzinfo=UTC)
_LARGEST_ID = 2**31 - 1


def drawn_trajectories(count: int) -> tuple[ScoredTrajectory, ...]:
    """Episodes of one to four turns with calls, empty turns and ids up to the largest; the same at every call."""
    return tuple(_trajectory(number, Random(number)) for number in range(count))


def round_trip_faults(trajectories: Sequence[ScoredTrajectory]) -> tuple[str, ...]:
    """What differs after encoding, writing, reading and decoding; empty where nothing does."""
    encoded = encode_trajectories(trajectories)
    tables = {name: _through_parquet(table) for name, table in encoded.tables.items()}
    blobs: Mapping[str, bytes] = encoded.blobs
    back = decode_trajectories(tables, lambda digest: blobs[digest])
    if len(back) != len(trajectories):
        return (f"{len(trajectories)} trajectories went out and {len(back)} came back",)
    return tuple(fault for one, other in zip(trajectories, back, strict=True) for fault in _faults(one, other))


def _faults(one: ScoredTrajectory, other: ScoredTrajectory) -> Iterator[str]:
    name, before, after = one.trajectory_id, one.trajectory.segments, other.trajectory.segments
    if len(before) != len(after):
        yield f"{name}: {len(before)} segments went out and {len(after)} came back"
        return
    for segment, same in zip(before, after, strict=True):
        if segment.token_ids.tobytes() != same.token_ids.tobytes():
            yield f"{name}, segment {segment.segment}: other token ids"
        if _bytes(segment.behavior_logprobs) != _bytes(same.behavior_logprobs):
            yield f"{name}, segment {segment.segment}: other log-probabilities"
    for what, masks in (
        ("actions", (action_mask(before, _ELIGIBLE), action_mask(after, _ELIGIBLE))),
        ("tools", (tool_mask(before), tool_mask(after))),
    ):
        if not np.array_equal(*masks):
            yield f"{name}: another mask of {what}"
    if one.outcome != other.outcome:
        yield f"{name}: another outcome"


def _bytes(scores: object) -> bytes | None:
    return scores.tobytes() if isinstance(scores, np.ndarray) else None


def _through_parquet(table: pa.Table) -> pa.Table:
    held = pa.BufferOutputStream()
    pq.write_table(table, held, compression="zstd")
    return pq.ParquetFile(pa.BufferReader(held.getvalue().to_pybytes())).read(use_threads=False)


def _trajectory(number: int, chance: Random) -> ScoredTrajectory:
    name = trajectory_id_of("train", number, 0, 0)
    segments = tuple(_segments(name, chance))
    calls = tuple(_call(one.call_id, one.segment, one.turn) for one in segments if one.call_id is not None)
    trajectory = Trajectory(
        trajectory_id=name,
        purpose="train",
        stage="rl",
        group_id=number,
        slot=0,
        attempt=0,
        task=Task(task_id=f"drawn/{number:016x}", source="drawn", revision="1", split="train", payload="{}"),
        environment="drawn",
        environment_revision="1",
        sandbox_profile=None,
        reset_seed=number,
        initial_state_hash=None,
        rendering_revision="1",
        lineage=None,
        parent_trajectory_id=None,
        terminal_reason=chance.choice((TerminalReason.MODEL_END, TerminalReason.TOKEN_LIMIT)),
        failure_class=None,
        failure_cause=None,
        segments=segments,
        tool_calls=calls,
        artifacts={},
        started_at=_AT,
        ended_at=_AT,
        queue_s=0.0,
        sampling_s=0.0,
        tools_s=0.0,
    )
    return ScoredTrajectory(
        trajectory=trajectory,
        verdicts=(),
        outcome=chance.random(),
        reward_rule="drawn",
        reward_components=(),
        verifying_s=0.0,
    )


def _segments(name: str, chance: Random) -> Iterator[Segment]:
    start, number = 0, 0
    for turn in range(chance.randint(1, 4)):
        for origin in ("task" if turn == 0 else "tool", "policy"):
            size = chance.choice((0, 1, 7, 40)) if origin == "policy" else chance.randint(1, 12)
            given = [chance.choice((0, 1, chance.randrange(_LARGEST_ID), _LARGEST_ID)) for _ in range(size)]
            is_policy = origin == "policy"
            yield Segment(
                segment=number,
                parent=None if number == 0 else number - 1,
                context=0,
                start=start,
                origin=origin,
                actor="agent",
                turn=turn,
                token_ids=ids(given),
                behavior_logprobs=logprobs([-chance.expovariate(1.0) for _ in given]) if is_policy else None,
                policy="policy" if is_policy else None,
                policy_version=turn if is_policy else None,
                cache_version=turn if is_policy else None,
                sampling=Sampling() if is_policy else None,
                finish="stop_token" if is_policy else None,
                call_id=f"{name}/c{turn}" if origin == "tool" else None,
            )
            start, number = start + size, number + 1


def _call(call_id: str | None, answered_in: int, turn: int) -> ToolCall:
    assert call_id is not None, "only answered calls are asked for"
    return ToolCall(
        call_id=call_id,
        asked_in=answered_in - 1,
        answered_in=answered_in,
        turn=turn - 1,
        tool="drawn",
        tool_revision="1",
        arguments="{}",
        status="ok",
        result="",
        result_sha256=None,
        result_bytes=0,
        retention="inline",
        started_at=_AT,
        latency_s=0.0,
    )
