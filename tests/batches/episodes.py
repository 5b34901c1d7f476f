"""Episodes made by hand, segment by segment, and an outcome as a learner would give it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollwright.algorithms.objective import Objective
from rollwright.batches import BatchRules, UpdateOutcome, UpdatePlan
from rollwright.record import (
    GradingError,
    Group,
    Origin,
    Purpose,
    Runs,
    Sampling,
    Scope,
    ScoredTrajectory,
    Segment,
    Span,
    Task,
    TerminalReason,
    Trajectory,
    Verdict,
    ids,
    logprobs,
    trajectory_id_of,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
POLICY: frozenset[tuple[str, str | None]] = frozenset({("policy", "policy")})
DEMONSTRATION: frozenset[tuple[str, str | None]] = frozenset({("demonstration", None)})
ON_POLICY = BatchRules(max_lag=0)


class Forest:
    """Segments in the order they are made; each goes behind the last one unless `after` says otherwise."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []

    def add(
        self,
        origin: Origin,
        tokens: int | Sequence[int],
        *,
        after: int | None = -1,
        version: int = 0,
        policy: str = "policy",
        sampling: Sampling | None = None,
        scores: Sequence[float] | None = None,
        context: int = 0,
        turn: int = 0,
        **fields: Any,
    ) -> int:
        """Add a segment of so many tokens, or of these ids; `after=None` opens a context. Returns its number."""
        number = len(self.segments)
        parent = None if after is None or not number else number - 1 if after == -1 else after
        start = 0 if parent is None else self.segments[parent].start + self.segments[parent].num_tokens
        numbers = [100 * number + i for i in range(tokens)] if isinstance(tokens, int) else list(tokens)
        more: dict[str, Any] = {"actor": "agent", **fields}
        if origin in ("policy", "teacher"):
            given = [-0.1 * (i + 1) for i in range(len(numbers))] if scores is None else scores
            more |= {
                "behavior_logprobs": logprobs(given),
                "policy": policy,
                "policy_version": version,
                "cache_version": version,
                "sampling": sampling or Sampling(),
            }
        self.segments.append(
            Segment(
                segment=number,
                parent=parent,
                context=context,
                start=start,
                origin=origin,
                turn=turn,
                token_ids=ids(numbers),
                **more,
            )
        )
        return number


def chat(*parts: tuple[Origin, int], version: int = 0) -> tuple[Segment, ...]:
    """One context of (origin, number of tokens) parts."""
    forest = Forest()
    for origin, tokens in parts:
        forest.add(origin, tokens, version=version)
    return tuple(forest.segments)


def task(source: str = "arithmetic") -> Task:
    return Task(task_id=f"{source}/00000000000000aa", source=source, revision="1", split="train", payload="{}")


def episode(
    segments: Sequence[Segment],
    *,
    group: int = 0,
    slot: int = 0,
    attempt: int = 0,
    outcome: float | str = 1.0,
    reason: TerminalReason = TerminalReason.MODEL_END,
    purpose: Purpose = "train",
    verdicts: Sequence[Verdict] = (),
    turn_rewards: Sequence[Verdict] = (),
    source: str = "arithmetic",
    **fields: Any,
) -> ScoredTrajectory:
    more: dict[str, Any] = {
        "environment": "calculator",
        "environment_revision": "e1",
        "sandbox_profile": None,
        "reset_seed": 1,
        "initial_state_hash": None,
        "rendering_revision": "r1",
        "lineage": None,
        "parent_trajectory_id": None,
        "failure_class": None,
        "failure_cause": None,
        "tool_calls": (),
        "artifacts": {},
        "started_at": NOW,
        "ended_at": NOW,
        "queue_s": 0.0,
        "sampling_s": 0.0,
        "tools_s": 0.0,
        **fields,
    }
    trajectory = Trajectory(
        trajectory_id=trajectory_id_of(purpose, group, slot, attempt),
        purpose=purpose,
        stage="rl",
        group_id=group,
        slot=slot,
        attempt=attempt,
        task=task(source),
        segments=tuple(segments),
        terminal_reason=reason,
        turn_rewards=tuple(turn_rewards),
        **more,
    )
    return ScoredTrajectory(
        trajectory=trajectory,
        verdicts=tuple(verdicts),
        outcome=outcome,
        reward_rule="rule-1",
        reward_components=(),
        verifying_s=0.0,
    )


def group(*members: ScoredTrajectory, size: int | None = None) -> Group:
    first = members[0].trajectory
    return Group(group_id=first.group_id, task=first.task, size=size or len(members), members=members)


def verdict_on(
    name: str, segment: int, value: float | GradingError, *, scope: Scope = "segment", tokens: int = 0, **fields: Any
) -> Verdict:
    return Verdict(
        trajectory_id=name,
        verifier=fields.pop("verifier", "judge"),
        revision=fields.pop("revision", "v1"),
        scope=scope,
        outcome=value,
        span=Span(segment=segment, token_start=0, token_end=tokens),
        **fields,
    )


def numbers(stored: Runs | NDArray[Any] | None) -> NDArray[Any]:
    """The values of a receipt's column, which must be there."""
    assert stored is not None
    return stored.expand() if isinstance(stored, Runs) else stored


def trained(plan: UpdatePlan) -> np.ndarray:
    """(T,) bool: trained tokens of the update's rows."""
    chosen = np.isin(np.arange(len(plan.batch.rows)), plan.rows)
    return plan.batch.action_mask & np.repeat(chosen, np.diff(plan.batch.row_offsets))


def outcome_of(plan: UpdatePlan, objective: Objective, **changes: Any) -> UpdateOutcome:
    """A learner at unchanged weights: proximal is behavior (-1 for what nobody sampled), ratio 1, nothing cut."""
    mask = trained(plan)
    scored = np.where(np.isnan(plan.batch.behavior), np.float32(-1), plan.batch.behavior)
    nan = np.float32(np.nan)
    losses: Mapping[str, np.ndarray] = {
        objective.component: -plan.token_weights[objective.component] * plan.batch.advantages,
        **{r.component: 0.5 * plan.token_weights[r.component] for r in objective.regularizers},
    }
    given: dict[str, Any] = {
        "update": plan.update,
        "proximal": np.where(mask, scored, nan),
        "current": None,
        "reference": None,
        "entropy": np.where(mask, np.float32(0.5), nan),
        "correction": None,
        "keep": mask,
        "flags": np.zeros(len(mask), np.uint16),
        "token_losses": losses,
        "loss": float(sum(term.sum() for term in losses.values())),
        "grad_norm": 1.0,
        "learning_rate": 0.01,
        "is_applied": bool(mask.any()),
        "skipped_reason": None if mask.any() else "no trainable token",
    }
    return UpdateOutcome(**{**given, **changes})
