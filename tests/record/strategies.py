"""Random records, for property tests; and `same`, which compares them by value, arrays bit for bit."""

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np
from hypothesis import strategies as st

from rollwright.record import (
    ORIGINS,
    EvaluationRow,
    LedgerRow,
    Metric,
    NamedValue,
    Receipt,
    RewardComponent,
    Sampling,
    ScoredTrajectory,
    Segment,
    Span,
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
from rollwright.record.run_length import run_length

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
names = st.text("abcdefgh_/", min_size=1, max_size=8)
times = st.datetimes(
    min_value=datetime(2020, 1, 1),
    max_value=datetime(2100, 1, 1),
    timezones=st.just(UTC),
)
small = st.integers(0, 30)
wide = st.integers(0, 2**62)
doubles = st.floats(allow_nan=False, allow_infinity=False)
singles = st.floats(-1e6, 1e6, width=32).map(lambda x: float(str(np.float32(x))))
seconds = st.floats(0, 1e5, width=32).map(lambda x: float(str(np.float32(x))))
samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.7, 1.0, 1.2]),
    top_p=st.sampled_from([0.1, 0.95, 1.0]),
    top_k=small,
    min_p=st.sampled_from([0.0, 0.05]),
    processors=st.lists(names, max_size=2).map(tuple),
)
finite_arrays = st.lists(st.floats(-1e6, 1e6, width=32), max_size=6)
labels = st.dictionaries(names, texts, max_size=3)


def optional(strategy):
    return st.none() | strategy


@st.composite
def segments(draw, number: int, starts: list[int]) -> Segment:
    """Segment `number` of a forest; `starts[i]` is where a child of segment i starts."""
    parent = draw(st.none() | st.integers(0, number - 1)) if number else None
    origin = draw(st.sampled_from(ORIGINS))
    tokens = draw(st.lists(st.integers(0, 200_000), max_size=5))
    is_sampled = origin in ("policy", "teacher")
    start = 0 if parent is None else starts[parent]
    starts.append(start + len(tokens))
    score = st.floats(-50, 0, width=32)
    return Segment(
        segment=number,
        parent=parent,
        context=draw(small),
        spawned_by=draw(optional(names)),
        start=start,
        origin=origin,
        actor=draw(names),
        turn=draw(small),
        token_ids=ids(tokens),
        behavior_logprobs=logprobs([draw(score) for _ in tokens]) if is_sampled else None,
        policy=draw(names) if is_sampled else None,
        policy_version=draw(small) if is_sampled else None,
        cache_version=draw(optional(small)),
        sampling=draw(samplings) if is_sampled else None,
        spans=draw(
            optional(
                st.lists(st.builds(TokenSpan, kind=names, token_start=small, token_end=small), max_size=2).map(tuple)
            )
        ),
        finish=draw(optional(names)),
        copied_from=draw(optional(small)),
        call_id=draw(optional(names)),
        state_hash=draw(optional(names)),
        tensors={
            name: np.array(draw(st.lists(small, min_size=2, max_size=2)), dtype=np.int16).reshape(1, 2)
            for name in draw(st.lists(names, max_size=2, unique=True))
        },
    )


@st.composite
def trajectories(draw, group_id: int = 0, slot: int = 0) -> ScoredTrajectory:
    """One scored trajectory."""
    purpose = draw(st.sampled_from(["train", "evaluation", "demonstration", "audit"]))
    name = trajectory_id_of(purpose, group_id, slot, 0)
    starts: list[int] = []
    parts = tuple(draw(segments(i, starts)) for i in range(draw(st.integers(0, 4))))
    calls = tuple(draw(tool_calls(f"{name}/c{i}")) for i in range(draw(st.integers(0, 2))))
    task = Task(task_id=draw(names), source=draw(names), revision="1", split="train", payload=draw(texts))
    trajectory = Trajectory(
        trajectory_id=name, purpose=purpose, stage=draw(names), group_id=group_id, slot=slot, attempt=0, task=task,
        environment="calculator", environment_revision="env-1", sandbox_profile=draw(optional(names)),
        reset_seed=draw(wide), initial_state_hash=draw(optional(names)), rendering_revision="r",
        lineage=draw(optional(st.sampled_from(["retry_of", "replay_of"]))),
        parent_trajectory_id=draw(optional(names)), terminal_reason=draw(st.sampled_from(list(TerminalReason))),
        failure_class=draw(optional(st.sampled_from(["task", "grading"]))), failure_cause=draw(optional(texts)),
        segments=parts, tool_calls=calls,
        artifacts=draw(st.dictionaries(names, st.binary(max_size=20), max_size=2)),
        turn_rewards=tuple(
            Verdict(trajectory_id=name, verifier=v, revision="env-1", scope="turn", outcome=0.5,
                    span=Span(segment=1, token_start=0, token_end=2))
            for v in draw(st.lists(names, max_size=2, unique=True))
        ),
        started_at=draw(times), ended_at=draw(times), queue_s=draw(seconds), sampling_s=draw(seconds),
        tools_s=draw(seconds), cost=draw(optional(doubles)),
    )  # fmt: skip
    return ScoredTrajectory(
        trajectory=trajectory,
        verdicts=tuple(draw(st.lists(verdicts(name), max_size=2))),
        outcome=draw(doubles | st.sampled_from(["grader_error", "demonstration"])),
        reward_rule=draw(names),
        reward_components=tuple(
            draw(st.lists(st.builds(RewardComponent, name=names, value=doubles, weight=doubles), max_size=2))
        ),
        verifying_s=draw(seconds),
    )


def verdicts(trajectory_id: str):
    return st.builds(
        Verdict,
        trajectory_id=st.just(trajectory_id),
        verifier=names,
        revision=names,
        scope=st.sampled_from(["trajectory", "group", "turn", "segment", "span"]),
        outcome=doubles | st.sampled_from(["grader_error", "timeout"]),
        components=st.lists(st.builds(NamedValue, name=names, value=doubles), max_size=2).map(tuple),
        finding=optional(st.just("no_answer")),
        evidence=texts,
        span=optional(st.builds(Span, segment=small, token_start=small, token_end=small)),
        latency_s=seconds,
        cost=optional(doubles),
    )


def tool_calls(call_id: str):
    return st.builds(
        ToolCall,
        call_id=st.just(call_id),
        asked_in=small,
        answered_in=optional(small),
        turn=small,
        tool=names,
        tool_revision=names,
        arguments=texts,
        status=st.sampled_from(["ok", "tool_error", "invalid_call"]),
        result=optional(texts),
        result_sha256=optional(names),
        result_bytes=wide,
        retention=st.sampled_from(["inline", "blob", "dropped"]),
        started_at=times,
        latency_s=seconds,
        cost=optional(doubles),
    )


def runs(dtype):
    values = st.integers(0, 1023) if dtype == np.uint16 else st.floats(-10, 10, width=32)
    return st.lists(values, max_size=6).map(lambda v: run_length(np.array(v, dtype=dtype)))


streams = finite_arrays.map(logprobs)
receipts = st.builds(
    Receipt,
    step=small,
    update=wide,
    model=st.sampled_from(["policy", "critic"]),
    component=st.sampled_from(["policy_gradient", "kl"]),
    trajectory_id=names,
    segment=small,
    row_index=small,
    lag=small,
    num_eligible=small,
    num_kept=small,
    untrained_reason=optional(st.just("zero_contrast")),
    advantage=optional(runs(np.float32)),
    token_weight=optional(runs(np.float64)),
    correction=optional(runs(np.float32)),
    flags=optional(runs(np.uint16)),
    proximal_logprobs=optional(streams),
    current_logprobs=optional(streams),
    reference_logprobs=optional(streams),
    teacher_logprobs=optional(streams),
    predicted_values=optional(streams),
    value_targets=optional(streams),
    entropy=optional(singles),
    max_log_ratio=optional(singles | st.just(float("inf"))),
    loss=doubles | st.just(float("nan")),
    influence=doubles,
)
ledger_rows = st.builds(
    LedgerRow,
    seq=wide,
    recorded_at=times,
    step=small,
    group_id=wide,
    slot=small,
    attempt=small,
    task_id=names,
    task_source=names,
    state=st.sampled_from(["in_flight", "ready", "trained"]),
    rule=optional(names),
    trajectory_id=optional(names),
    successor=optional(wide),
    policy_version=small,
)
metrics = st.builds(
    Metric,
    step=small,
    update=wide,
    name=names,
    value=optional(doubles | st.just(float("inf"))),
    unit=names,
    labels=labels,
    num_items=wide,
    recorded_at=times,
)
evaluation_rows = st.builds(
    EvaluationRow,
    evaluation=names,
    protocol=names,
    protocol_sha256=names,
    policy=names,
    policy_version=small,
    step=small,
    metric=names,
    value=optional(doubles),
    low=optional(doubles),
    high=optional(doubles),
    level=st.just(0.95),
    interval_method=names,
    labels=labels,
    num_tasks=small,
    num_trajectories=small,
    num_unscored=small,
    recorded_at=times,
)


def same(a: object, b: object) -> bool:
    """Equal by value, through records, maps and tuples; arrays and floats by their bits."""
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (tuple, list)):
        return isinstance(b, (tuple, list)) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return isinstance(b, float) and np.float64(a).tobytes() == np.float64(b).tobytes()
    return type(a) is type(b) and a == b
