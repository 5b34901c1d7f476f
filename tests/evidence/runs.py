"""Small runs made by hand: episodes of one tool call, their receipts, ledger rows and metrics."""

import dataclasses
import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from rollwright.evidence import (
    AlgorithmSection,
    CommitKind,
    CommitRows,
    ConfigValue,
    DataSection,
    EnvironmentSection,
    EvaluationSection,
    MachineSection,
    Manifest,
    ModelSection,
    PromptSource,
    Retention,
    RewardSection,
    RunFolder,
    RunSection,
)
from rollwright.record import (
    EligibleRow,
    EvaluationRow,
    LedgerRow,
    Metric,
    Purpose,
    Receipt,
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
from rollwright.record.run_length import run_length
from rollwright.record.seeds import evaluation_reset_seed, reset_seed

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
RUN_SEED = 7
NUM_ACTION_TOKENS = 5
"""Of each hand-made episode: 3 in the first policy segment, 2 in the second."""


def task(number: int = 0) -> Task:
    payload = f'{{"answer":"{number}","prompt":"1+{number}"}}'
    sha256 = hashlib.sha256(payload.encode()).hexdigest()
    return Task(task_id=f"arithmetic/{sha256[:16]}", source="arithmetic", revision="1", split="train", payload=payload)


def policy_segment(number: int, parent: int, start: int, tokens: list[int], turn: int, version: int) -> Segment:
    return Segment(
        segment=number,
        parent=parent,
        context=0,
        start=start,
        origin="policy",
        actor="agent",
        turn=turn,
        token_ids=ids(tokens),
        behavior_logprobs=logprobs([-0.25 * (i + 1) for i in range(len(tokens))]),
        policy="policy",
        policy_version=version,
        cache_version=version,
        sampling=Sampling(temperature=0.7),
        spans=(TokenSpan(kind="tool_call" if turn == 0 else "answer", token_start=0, token_end=len(tokens)),),
        finish="tool_call" if turn == 0 else "stop_token",
    )


def episode_segments(name: str, version: int) -> tuple[Segment, ...]:
    def given(number: int, parent: int | None, start: int, origin, tokens: list[int], call_id: str | None = None):
        return Segment(
            segment=number,
            parent=parent,
            context=0,
            start=start,
            origin=origin,
            actor="agent",
            turn=0 if number < 2 else 1,
            token_ids=ids(tokens),
            call_id=call_id,
        )

    return (
        given(0, None, 0, "task", [1, 2, 3, 4]),
        policy_segment(1, 0, 4, [5, 6, 7], 0, version),
        given(2, 1, 7, "tool", [8, 9], f"{name}/c0"),
        policy_segment(3, 2, 9, [10, 0], 1, version),
    )


def scored_trajectory(
    *,
    group_id: int,
    slot: int,
    attempt: int = 0,
    purpose: Purpose = "train",
    version: int = 0,
    outcome: float | str = 1.0,
    terminal_reason: TerminalReason = TerminalReason.MODEL_END,
) -> ScoredTrajectory:
    name = trajectory_id_of(purpose, group_id, slot, attempt)
    call = ToolCall(
        call_id=f"{name}/c0",
        asked_in=1,
        answered_in=2,
        turn=0,
        tool="calculator",
        tool_revision="calc-1",
        arguments='{"expression":"1+1"}',
        status="ok",
        result="2",
        result_sha256=None,
        result_bytes=1,
        retention="inline",
        started_at=START,
        latency_s=0.01,
    )
    trajectory = Trajectory(
        trajectory_id=name,
        purpose=purpose,
        stage="rl",
        group_id=group_id,
        slot=slot,
        attempt=attempt,
        task=task(group_id),
        environment="calculator",
        environment_revision="env-1",
        sandbox_profile=None,
        reset_seed=reset_seed(RUN_SEED, purpose, group_id)
        if purpose != "evaluation"
        else evaluation_reset_seed("0" * 64, task(group_id).task_id),
        initial_state_hash=None,
        rendering_revision="render-1",
        lineage=None if attempt == 0 else "retry_of",
        parent_trajectory_id=None if attempt == 0 else trajectory_id_of(purpose, group_id, slot, attempt - 1),
        terminal_reason=terminal_reason,
        failure_class=None,
        failure_cause=None,
        segments=episode_segments(name, version),
        tool_calls=(call,),
        artifacts={"log.txt": b"1+1=2\n"},
        started_at=START,
        ended_at=START + timedelta(seconds=1),
        queue_s=0.1,
        sampling_s=0.7,
        tools_s=0.01,
    )
    is_scored = not isinstance(outcome, str)
    verdict = Verdict(
        trajectory_id=name,
        verifier="numeric",
        revision="numeric-1",
        scope="trajectory",
        outcome=outcome if is_scored else "grader_error",
        latency_s=0.002,
    )
    return ScoredTrajectory(
        trajectory=trajectory,
        verdicts=(verdict,),
        outcome=outcome,
        reward_rule="rule-1",
        reward_components=(RewardComponent(name="numeric", value=float(outcome), weight=1.0),) if is_scored else (),
        verifying_s=0.002,
    )


def receipts(scored: ScoredTrajectory, *, step: int, weight: float, component: str = "policy_gradient", row: int = 0):
    """One receipt a policy segment, every token with the same weight."""
    reward = scored.outcome if isinstance(scored.outcome, float) else 0.0
    made: list[Receipt] = []
    for segment in scored.trajectory.segments:
        if segment.origin != "policy":
            continue
        size = segment.num_tokens
        advantage = reward - 0.5
        made.append(
            Receipt(
                step=step,
                update=step,
                model="policy",
                component=component,
                trajectory_id=scored.trajectory_id,
                segment=segment.segment,
                row_index=row,
                lag=0,
                num_eligible=size,
                num_kept=size,
                untrained_reason=None,
                advantage=run_length(np.full(size, advantage, dtype=np.float32)),
                token_weight=run_length(np.full(size, weight)),
                correction=None,
                flags=run_length(np.zeros(size, dtype=np.uint16)),
                proximal_logprobs=segment.behavior_logprobs,
                current_logprobs=None,
                entropy=0.5,
                max_log_ratio=0.0,
                loss=-advantage * weight * size,
                influence=abs(advantage) * weight * size,
            )
        )
    return made


def ledger_row(
    scored: ScoredTrajectory, state, *, step: int, seconds: float = 0.0, rule: str | None = None
) -> LedgerRow:
    t = scored.trajectory
    return LedgerRow(
        seq=0,
        recorded_at=START + timedelta(seconds=seconds),
        step=step,
        group_id=t.group_id,
        slot=t.slot,
        attempt=t.attempt,
        task_id=t.task.task_id,
        task_source=t.task.source,
        state=state,
        rule=rule,
        trajectory_id=None if state == "in_flight" else t.trajectory_id,
        successor=None,
        policy_version=step - 1,
    )


def metric(name: str, value: float | None, *, step: int, update: int = 0, unit: str = "1", **labels: str) -> Metric:
    return Metric(
        step=step, update=update, name=name, value=value, unit=unit, labels=labels, num_items=1, recorded_at=START
    )


def manifest(*, receipts: Retention = "full", run_id: str = "run-1", **changed) -> Manifest:
    """A manifest with every section filled; `changed` replaces whole sections."""
    digest = "0" * 64
    made = Manifest(
        run=RunSection(
            run_id=run_id,
            created_at=START,
            code_commit="abc123",
            code_sha256=digest,
            config_sha256=digest,
            framework_versions={"numpy": "2.0"},
        ),
        model=ModelSection(
            architecture="Qwen3ForCausalLM",
            num_parameters=1000,
            initial_weights_sha256=digest,
            tokenizer_revision="tok-1",
            chat_template_sha256=digest,
            precision_train="float32",
            precision_rollout="float32",
        ),
        data=DataSection(
            prompt_sources=(
                PromptSource(id="arithmetic", revision="1", license="Apache-2.0", split_manifest_sha256=digest),
            )
        ),
        environment=EnvironmentSection(
            name="calculator",
            revision="env-1",
            reset_seed_policy="of the run seed, purpose and group",
            tool_schema_revision="calc-1",
            timeout_policy={"turns": 4.0},
        ),
        reward=RewardSection(
            rule="rule-1",
            verifier_commit="abc123",
            verifier_revisions={"numeric": "numeric-1"},
            component_weights={"numeric": 1.0},
            truncation_policy="negative",
        ),
        algorithm=(
            AlgorithmSection(
                stage="rl",
                estimator="grpo",
                loss_denominator="token_mean",
                reward_scaling="group_std",
                clip_low=0.2,
                clip_high=0.28,
                kl_reference_revision=None,
                max_policy_lag=0,
            ),
        ),
        evaluation=EvaluationSection(
            protocol="held-out",
            protocol_sha256=digest,
            harness_commit="abc123",
            prompt_template_sha256=digest,
            budgets={"turns": 4.0},
            sample_count=1,
            aggregation="mean over tasks",
        ),
        machine=MachineSection(
            cpu_model="a CPU",
            torch_capability="AVX512",
            num_cores=2,
            memory_bytes=1 << 30,
            operating_system="Linux",
            python="3.11.7",
            threads={"engine": 1, "learner": 1},
        ),
        seeds={"run": RUN_SEED},
        eligible=(
            EligibleRow(model="policy", component="policy_gradient", origin="policy", policy="policy"),
            EligibleRow(model="policy", component="nll", origin="demonstration", policy=None),
        ),
        configuration=(ConfigValue(key="run.steps", value="2", origin="default"),),
        receipts=receipts,
        is_deterministic=True,
    )
    return dataclasses.replace(made, **changed)


def trained_step(step: int, *, groups: int = 2, size: int = 2) -> CommitRows:
    """A step in which every slot of its groups was trained, with token-mean weights."""
    members = [
        scored_trajectory(
            group_id=(step - 1) * groups + g, slot=s, version=step - 1, outcome=1.0 if s % 2 == 0 else 0.0
        )
        for g in range(groups)
        for s in range(size)
    ]
    weight = 1 / (NUM_ACTION_TOKENS * len(members))
    return CommitRows(
        kind="step",
        step=step,
        trajectories=members,
        receipts=[r for i, m in enumerate(members) for r in receipts(m, step=step, weight=weight, row=i)],
        ledger=[ledger_row(m, state, step=step) for state in ("in_flight", "ready", "trained") for m in members],
        metrics=[
            metric("weight_sum", 1.0, step=step, update=step, model="policy", component="policy_gradient"),
            metric("denominator", float(NUM_ACTION_TOKENS * len(members)), step=step, update=step),
            metric("step_s", 1.5 * step, step=step, unit="s"),
        ],
    )


def evaluation(step: int, *, kind: CommitKind = "step", group_id: int = 900) -> CommitRows:
    """A held-out evaluation of one task and one sample, after a step."""
    scored = scored_trajectory(group_id=group_id, slot=0, purpose="evaluation", version=step)
    row = EvaluationRow(
        evaluation=f"held-out@{step}",
        protocol="held-out",
        protocol_sha256="0" * 64,
        policy="policy",
        policy_version=step,
        step=step,
        metric="success",
        value=1.0,
        low=0.5,
        high=1.0,
        level=0.95,
        interval_method="wilson",
        labels={},
        num_tasks=1,
        num_trajectories=1,
        num_unscored=0,
        recorded_at=START,
    )
    return CommitRows(kind=kind, step=step, trajectories=[scored], evaluations=[row])


def written_run(path: Path, *, steps: int = 2, **of_manifest) -> Path:
    """A run of that many steps, with an evaluation as step 0."""
    with RunFolder.create(path, manifest(**of_manifest), "[run]\nsteps = 2\n") as folder:
        folder.commit(evaluation(0), at=START)
        for step in range(1, steps + 1):
            folder.commit(trained_step(step), at=START + timedelta(seconds=step))
    return path
