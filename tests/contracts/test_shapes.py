"""The awkward twelve: shapes that break trainers, each built by hand and taken the whole way.

codec and run folder ─► masks ─► credit ─► weights ─► planner ─► cuts ─► receipts ─► commit ─► check (the audit query)
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.distillation import teacher_gap
from rollwright.algorithms.credit.generalized_advantage import generalized_advantage
from rollwright.algorithms.denominators.plain import ResponseMean, TokenMean
from rollwright.algorithms.flags import ZERO_ADVANTAGE
from rollwright.algorithms.objective import Objective
from rollwright.algorithms.presets import score_function, supervised
from rollwright.batches import (
    BatchRules,
    SegmentScores,
    StepBatch,
    UpdateOutcome,
    UpdatePlan,
    action_mask,
    cut,
    eligible_rows,
    plan_step,
    plan_updates,
    receipts_of,
    update_metrics,
)
from rollwright.evidence import CommitRows, Manifest, RunFolder, StoredRun, check, query
from rollwright.record import (
    EligibleRow,
    Group,
    LedgerRow,
    LedgerState,
    Receipt,
    Sampling,
    ScoredTrajectory,
    Segment,
    TerminalReason,
    ToolCall,
)
from rollwright.record.seeds import reset_seed
from tests.batches.episodes import (
    DEMONSTRATION,
    NOW,
    POLICY,
    Forest,
    chat,
    episode,
    group,
    numbers,
    outcome_of,
    trained,
    verdict_on,
)
from tests.evidence.runs import RUN_SEED, manifest

Eligible = frozenset[tuple[str, str | None]]


def centered(weights=None) -> Objective:
    return score_function("centered", credit=center_within_group, weights=weights or TokenMean())


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one objective trains of the step."""

    objective: Objective = field(default_factory=centered)
    eligible: Eligible = POLICY
    rules: BatchRules = field(default_factory=lambda: BatchRules(max_lag=0))
    scores: Sequence[SegmentScores] = ()
    update: int = 1


@dataclass(frozen=True, kw_only=True)
class Journey:
    """Where a shape arrived: the plan of its part and the receipts, by trajectory and segment."""

    plan: UpdatePlan
    receipts: Mapping[tuple[str, int], Receipt]

    @property
    def batch(self) -> StepBatch:
        return self.plan.batch

    def trained_segments(self) -> set[tuple[str, int]]:
        """Segments with a token that weighs something."""
        return {key for key, receipt in self.receipts.items() if numbers(receipt.token_weight).any()}


def travel(
    path: Path, groups: Sequence[Group], *parts: Part, step: int = 1, others: Sequence[ScoredTrajectory] = ()
) -> list[Journey]:
    """Take groups the whole way, from what a run folder gives back of them; `check` must find nothing."""
    parts = parts or (Part(),)
    groups = [replace_members(g, [of_the_run(m) for m in g.members]) for g in groups]
    others = [of_the_run(m) for m in others]
    members = [m for g in groups for m in g.members]
    walked = [walk(groups, part, step) for part in parts]
    eligible = [row for p in parts for row in eligible_rows(p.rules.model, p.objective, p.eligible)]
    with RunFolder.create(path / "run", manifest_of(eligible, parts), "") as folder:
        folder.commit(
            CommitRows(
                kind="step",
                step=step,
                trajectories=[*members, *others],
                receipts=[r for one in walked for r in one.receipts.values()],
                ledger=ledger(members, others, step),
                metrics=[
                    m
                    for one, p in zip(walked, parts, strict=True)
                    for m in update_metrics(one.plan, learned(one.plan, p.objective), p.objective, now=NOW)
                ],
            ),
            at=NOW,
        )
    report = check(path / "run")
    assert [(f.place, f.text, f.expected) for f in report.findings] == []
    assert [said for said in report.not_checked if "carries no tokenizer" not in said] == []
    kept = StoredRun(path / "run")
    stored = [replace_members(g, kept.trajectories([m.trajectory_id for m in g.members])) for g in groups]
    for part, one in zip(parts, walked, strict=True):
        assert_same_batch(walk(stored, part, step).batch, one.batch)
        assert_masks_are_those_of_provenance(one.batch, part.eligible)
        assert_pieces_hold_all_weight(one.plan)
    return walked


def walk(groups: Sequence[Group], part: Part, step: int) -> Journey:
    batch = plan_step(
        groups, step=step, objective=part.objective, eligible=part.eligible, rules=part.rules, scores=part.scores
    )
    (plan,) = plan_updates(batch, part.objective, first_update=part.update, num_minibatches=1)
    receipts = receipts_of(plan, learned(plan, part.objective), part.objective)
    return Journey(plan=plan, receipts={(r.trajectory_id, r.segment): r for r in receipts})


def learned(plan: UpdatePlan, objective: Objective) -> UpdateOutcome:
    """What a learner at unchanged weights says of an update: trained tokens of advantage 0 are flagged."""
    is_zero = trained(plan) & (plan.batch.advantages == 0)
    return outcome_of(plan, objective, flags=np.where(is_zero, ZERO_ADVANTAGE, 0).astype(np.uint16))


def replace_members(given: Group, members: Sequence[ScoredTrajectory]) -> Group:
    return replace(given, task=members[0].trajectory.task, members=tuple(members))


def of_the_run(member: ScoredTrajectory) -> ScoredTrajectory:
    """As a run makes it: its task is named by the digest of the payload, and its seed is of the run's own."""
    trajectory = member.trajectory
    sha256 = hashlib.sha256(trajectory.task.payload.encode()).hexdigest()
    named = replace(trajectory.task, task_id=f"{trajectory.task.source}/{sha256[:16]}")
    seed = reset_seed(RUN_SEED, trajectory.purpose, trajectory.group_id)
    return replace(member, trajectory=replace(trajectory, task=named, reset_seed=seed))


def manifest_of(eligible: Sequence[EligibleRow], parts: Sequence[Part]) -> Manifest:
    """It says what the parts train, and how old what they train may be."""
    made = manifest(eligible=tuple(eligible))
    (section,) = made.algorithm
    return replace(made, algorithm=(replace(section, max_policy_lag=max(p.rules.max_lag for p in parts)),))


def call_of(name: str, *, asked_in: int, answered_in: int | None) -> ToolCall:
    """The first call of an episode, in its first turn."""
    return ToolCall(
        call_id=f"{name}/c0", asked_in=asked_in, answered_in=answered_in, turn=0, tool="solver", tool_revision="s1",
        arguments="{}", status="ok", result="4", result_sha256=None, result_bytes=1, retention="inline",
        started_at=NOW, latency_s=0.0,
    )  # fmt: skip


def ledger(members: Sequence[ScoredTrajectory], others: Sequence[ScoredTrajectory], step: int) -> list[LedgerRow]:
    """Slots of the members are trained; an earlier attempt among the others was retried in its slot."""
    lost: tuple[LedgerState, ...] = ("in_flight",)
    done: tuple[LedgerState, ...] = ("in_flight", "ready", "trained")
    return [
        LedgerRow(
            seq=0, recorded_at=NOW, step=step, group_id=t.group_id, slot=t.slot, attempt=t.attempt,
            task_id=t.task.task_id, task_source=t.task.source, state=state, rule=None,
            trajectory_id=None if state == "in_flight" else t.trajectory_id, successor=None, policy_version=step - 1,
        )
        for t, states in (*((m.trajectory, lost) for m in others), *((m.trajectory, done) for m in members))
        if t.purpose == "train"
        for state in states
    ]  # fmt: skip


def assert_same_batch(one: StepBatch, other: StepBatch) -> None:
    """The record is complete: what the folder holds makes the same batch, bit for bit."""
    for name in (
        "row_offsets", "token_ids", "segment_ids", "acts", "action_mask", "behavior", "policy_versions", "temperature",
        "advantages",
    ):  # fmt: skip
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    assert one.untrained == other.untrained
    assert [row.withheld for row in one.rows] == [row.withheld for row in other.rows]
    for mine, its in ((one.support, other.support), (one.routed_experts, other.routed_experts)):
        assert (mine is None) == (its is None)
    if one.support is not None and other.support is not None:
        assert one.support.token_ids.tolist() == other.support.token_ids.tolist()


def assert_masks_are_those_of_provenance(batch: StepBatch, eligible: Eligible) -> None:
    paths = [[batch.members[row.member].trajectory.segments[n] for n in row.segments] for row in batch.rows]
    masks = [action_mask(path, eligible) for path in paths]
    assert np.array_equal(batch.acts, np.concatenate([np.zeros(0, np.bool_), *masks]))
    assert not (batch.action_mask & ~batch.acts).any()


def assert_pieces_hold_all_weight(plan: UpdatePlan) -> None:
    for component, due in plan.weight_sums.items():
        found = sum(float(m.token_weights[component].sum()) for m in cut(plan, token_budget=1))
        assert found == pytest.approx(due, rel=1e-12)


def answer(version: int = 0) -> tuple[Segment, ...]:
    return chat(("task", 2), ("policy", 2), version=version)


def other(*, slot: int = 1, version: int = 0, outcome: float | str = 0.0) -> ScoredTrajectory:
    """A plain sibling, to be compared with."""
    return episode(answer(version), slot=slot, outcome=outcome)


NAME = "t000000-00-0"


@pytest.mark.row("S235")
def test_swap_in_mid_turn(tmp_path):
    forest = Forest()
    forest.add("task", 2)
    forest.add("policy", 3, version=3, finish="swapped", scores=[-0.1, -0.2, -0.3])
    forest.add("policy", 2, version=4, finish="stop_token", scores=[-0.4, -0.5])
    groups = [group(episode(forest.segments), other(version=4))]
    (found,) = travel(tmp_path, groups, Part(rules=BatchRules(max_lag=1)), step=5)
    assert found.batch.policy_versions[:7].tolist() == [-1, -1, 3, 3, 3, 4, 4]
    assert found.batch.rows[0].lag == 1 and found.batch.rows[0].withheld is None
    assert [found.receipts[NAME, s].lag for s in (1, 2)] == [1, 0]
    assert numbers(found.receipts[NAME, 2].token_weight).tolist() == pytest.approx([1 / 7] * 2)
    rows = query(
        tmp_path / "run",
        f"SELECT policy_version, start, start + num_tokens FROM segments "
        f"WHERE trajectory_id = '{NAME}' AND origin = 'policy' ORDER BY segment",
    ).rows
    assert rows == ((3, 2, 5), (4, 5, 7))


def test_parked_and_resumed(tmp_path):
    def first(forest: Forest) -> Forest:
        forest.add("task", 2)
        forest.add("policy", [5, 6], version=3, finish="aborted", scores=[-0.1, -0.2])
        return forest

    whole = first(Forest())
    whole.add("policy", [7, 8], version=4, finish="length", scores=[-0.3, -0.4])
    parked = episode(
        first(Forest()).segments, outcome="aborted", reason=TerminalReason.ABORTED, failure_class="abandoned",
        failure_cause="parked",
    )  # fmt: skip
    resumed = episode(whole.segments, attempt=1, lineage="resumed_from", parent_trajectory_id=NAME)
    groups = [group(resumed, other(version=4))]
    (found,) = travel(tmp_path, groups, Part(rules=BatchRules(max_lag=1)), step=5, others=[parked])
    name = "t000000-00-1"
    assert found.trained_segments() == {(name, 1), (name, 2), ("t000000-01-0", 1)}
    assert found.batch.behavior[2:6].tolist() == pytest.approx([-0.1, -0.2, -0.3, -0.4])
    assert found.batch.policy_versions[2:6].tolist() == [3, 3, 4, 4]
    assert not [key for key in found.receipts if key[0] == NAME]


def test_compaction(tmp_path):
    forest = Forest()
    forest.add("task", 2)
    forest.add("policy", 3)
    forest.add("tool", 4)
    summary = forest.add("policy", [31, 32], turn=1, finish="stop_token")
    forest.add("task", 2, after=None, context=1)
    forest.add("template", [31, 32], context=1, copied_from=summary)
    forest.add("policy", 2, context=1, turn=2)
    (found,) = travel(tmp_path, [group(episode(forest.segments), other())])
    assert [row.segments for row in found.batch.rows[:2]] == [(0, 1, 2, 3), (4, 5, 6)]
    assert found.batch.facts.episode_index[:2].tolist() == [0, 0]
    # Tokens of the summary are trained where they were written, not where they are read again.
    trained = found.batch.token_ids[found.batch.action_mask].tolist()
    assert trained.count(31) == 1 and found.batch.token_ids.tolist().count(31) == 2
    assert {key for key in found.receipts if key[0] == NAME} == {(NAME, s) for s in (1, 3, 6)}
    assert found.batch.advantages[found.batch.action_mask].tolist() == [0.5] * 7 + [-0.5] * 2


def test_thinking_stripped_from_history(tmp_path):
    forest = Forest()
    start = forest.add("task", 2)
    turn = forest.add("policy", [50, 51, 52, 7], finish="stop_token")
    forest.add("template", [7], after=start, context=1, copied_from=turn)
    forest.add("user", 2, context=1)
    forest.add("policy", 2, context=1, turn=1)
    (found,) = travel(tmp_path, [group(episode(forest.segments), other())])
    assert [row.segments for row in found.batch.rows[:2]] == [(0, 1), (0, 2, 3, 4)]
    first, second = (found.batch.row_offsets[i : i + 2] for i in (0, 1))
    assert found.batch.token_ids[slice(*second)].tolist()[:3] == [0, 1, 7]
    assert found.batch.action_mask[slice(*first)].tolist() == [False] * 2 + [True] * 4
    assert found.batch.action_mask[slice(*second)].tolist() == [False] * 5 + [True] * 2
    assert found.trained_segments() == {(NAME, 1), (NAME, 4), ("t000000-01-0", 1)}


def test_a_sub_agent_with_its_own_policy_beside_its_parent(tmp_path):
    forest = Forest()
    forest.add("task", 2)
    asked = forest.add("policy", 2, finish="tool_call")
    forest.add("task", 1, after=None, context=1, spawned_by=f"{NAME}/c0", actor="solver")
    forest.add("policy", 4, context=1, policy="solver", actor="solver", scores=[-0.5] * 4)
    forest.add("tool", 2, after=asked, call_id=f"{NAME}/c0")
    forest.add("policy", 1, turn=1)
    solver: Eligible = frozenset({("policy", "solver")})
    parts = (Part(), Part(eligible=solver, rules=BatchRules(max_lag=0, model="solver")))
    calls = (call_of(NAME, asked_in=asked, answered_in=4),)
    caller, callee = travel(tmp_path, [group(episode(forest.segments, tool_calls=calls), other_with_solver())], *parts)
    assert [row.segments for row in caller.batch.rows[:2]] == [(2, 3), (0, 1, 4, 5)]
    assert {s for n, s in caller.receipts if n == NAME} == {1, 5}
    assert {s for n, s in callee.receipts if n == NAME} == {3}
    # Both share the episode's reward, each over its own tokens: 3 + 2 and 4 + 1.
    assert caller.plan.denominators == {"policy_gradient": 5.0} == callee.plan.denominators
    assert numbers(callee.receipts[NAME, 3].advantage).tolist() == [0.5] * 4
    assert all(r.model == "solver" for r in callee.receipts.values())


def other_with_solver() -> ScoredTrajectory:
    forest = Forest()
    forest.add("task", 2)
    forest.add("policy", 2)
    forest.add("task", 1, after=None, context=1, spawned_by="t000000-01-0/c0", actor="solver")
    forest.add("policy", 1, context=1, policy="solver", actor="solver")
    calls = (call_of("t000000-01-0", asked_in=1, answered_in=None),)
    return episode(forest.segments, slot=1, outcome=0.0, tool_calls=calls)


def test_a_fork_with_two_rewards(tmp_path):
    forest = Forest()
    forest.add("task", 2)
    shared = forest.add("policy", 2)
    left = forest.add("policy", 1, turn=1)
    right = forest.add("policy", 3, after=shared, context=1, turn=1)
    verdicts = [verdict_on(NAME, left, 1.0, tokens=1), verdict_on(NAME, right, 0.0, tokens=3)]
    (found,) = travel(tmp_path, [group(episode(forest.segments, outcome=0.5, verdicts=verdicts), other())])
    assert found.batch.facts.rewards.tolist() == [1.0, 0.0, 0.0]
    # The episode counts once, as 0.5: the group's mean is 0.25. A shared segment has the mean of its copies.
    assert [numbers(found.receipts[NAME, s].advantage).tolist() for s in (shared, left, right)] == [
        [0.25] * 2, [0.75], [-0.25] * 3,
    ]  # fmt: skip
    assert [found.receipts[NAME, s].row_index for s in (shared, left, right)] == [0, 0, 1]
    assert found.plan.denominators == {"policy_gradient": 8.0}
    assert found.batch.action_mask.sum() == 8 and found.batch.acts.sum() == 10


def test_two_attempts_in_a_slot(tmp_path):
    lost = episode(
        chat(("task", 2), ("policy", 1)), outcome="infrastructure_failure", failure_class="infrastructure",
        reason=TerminalReason.INFRASTRUCTURE_FAILURE, failure_cause="the engine was lost",
    )  # fmt: skip
    tried = episode(answer(), attempt=1, lineage="retry_of", parent_trajectory_id=NAME)
    (found,) = travel(tmp_path, [group(tried, other())], others=[lost])
    assert [m.trajectory_id for m in found.batch.members] == ["t000000-00-1", "t000000-01-0"]
    assert {name for name, _ in found.receipts} == {"t000000-00-1", "t000000-01-0"}
    assert found.batch.facts.group_index.tolist() == [0, 0]
    rows = query(tmp_path / "run", "SELECT slot, attempt, state FROM slots ORDER BY slot").rows
    assert rows == ((0, 1, "trained"), (1, 0, "trained"))


def test_one_stale_sibling(tmp_path):
    groups = [group(episode(answer(4)), episode(answer(1), slot=1, outcome=0.0), other(slot=2, version=4))]
    (found,) = travel(tmp_path, groups, Part(rules=BatchRules(max_lag=1)), step=5)
    assert [row.withheld for row in found.batch.rows] == [None, "stale", None]
    stale = found.receipts["t000000-01-0", 1]
    assert (stale.untrained_reason, stale.lag, stale.num_kept, stale.influence) == ("stale", 3, 0, 0.0)
    assert numbers(stale.token_weight).tolist() == [0, 0] and stale.proximal_logprobs is None
    # Its reward stays in the baseline, its tokens leave the denominator.
    assert numbers(found.receipts[NAME, 1].advantage).tolist() == pytest.approx([2 / 3] * 2)
    assert found.plan.denominators == {"policy_gradient": 4.0}


def said(name: str, segment: int, what: str, values: list[float]) -> SegmentScores:
    return SegmentScores(trajectory_id=name, segment=segment, name=what, values=np.asarray(values, np.float32))


def test_a_critic_truncated_behind_an_observation(tmp_path):
    cut_off = chat(("task", 2), ("policy", 2), ("tool", 3))
    members = [episode(cut_off, reason=TerminalReason.TURN_LIMIT, outcome=0.0), other(outcome=1.0)]
    scores = [
        said(NAME, 1, "predicted", [0.2, 0.4]),
        said("t000000-01-0", 1, "predicted", [0.5, 0.75]),
        said(NAME, 2, "bootstrap", [0.5]),
    ]  # fmt: skip
    policy = score_function("gae", credit=generalized_advantage, weights=TokenMean())
    critic = replace(policy, name="critic", component="value", weights=ResponseMean())
    parts = (
        Part(objective=policy, scores=scores),
        Part(objective=critic, scores=scores, rules=BatchRules(max_lag=0, model="critic")),
    )
    actor, judge = travel(tmp_path, [group(*members)], *parts)
    # Nothing is read behind the observation but the bootstrap, and the reward of the cut episode is not its end.
    assert numbers(actor.receipts[NAME, 1].advantage).tolist() == pytest.approx([0.3, 0.1])
    value = judge.receipts[NAME, 1]
    assert (value.model, value.component) == ("critic", "value")
    assert numbers(value.predicted_values).tolist() == pytest.approx([0.2, 0.4])
    assert numbers(value.value_targets).tolist() == [0.5, 0.5]
    assert numbers(judge.receipts["t000000-01-0", 1].value_targets).tolist() == [1.0, 1.0]
    assert np.isnan(judge.batch.scores["predicted"][4:7]).all()


def test_teacher_scores_and_a_demonstration_turn(tmp_path):
    forest = Forest()
    forest.add("task", 2)
    forest.add("policy", 2, scores=[-1.0, -2.0])
    forest.add("environment", 1)
    forest.add("demonstration", 3, turn=1)
    forest.add("environment", 1)
    forest.add("policy", 1, turn=2, scores=[-0.5])
    scores = [
        said(NAME, 1, "teacher", [-0.5, -2.5]),
        said(NAME, 5, "teacher", [-0.5]),
    ]
    toward_teacher = partial(teacher_gap, student="behavior")
    distill = replace(
        score_function("distillation", credit=toward_teacher, weights=TokenMean()), component="distillation"
    )
    parts = (
        Part(objective=distill, scores=scores),
        Part(objective=supervised(), eligible=DEMONSTRATION, update=2),
    )
    taught, shown = travel(tmp_path, [group(episode(forest.segments))], *parts)
    first = taught.receipts[NAME, 1]
    assert numbers(first.teacher_logprobs).tolist() == [-0.5, -2.5]
    assert numbers(first.advantage).tolist() == [0.5, -0.5]
    assert numbers(first.token_weight).tolist() == pytest.approx([1 / 3] * 2)
    assert {s for _, s in taught.receipts} == {1, 5} and {s for _, s in shown.receipts} == {3}
    turn = shown.receipts[NAME, 3]
    assert (turn.component, turn.lag, turn.num_kept) == ("nll", 0, 3)
    assert np.isnan(shown.batch.behavior[shown.batch.action_mask]).all()


def test_support_and_routed_experts_replayed(tmp_path):
    forest = Forest()
    forest.add("task", 2)
    forest.add(
        "policy", [7, 8], sampling=Sampling(temperature=0.7, top_p=0.9), scores=[-0.5, 0.0],
        tensors={
            "support_counts": np.asarray([2, 1], np.int32), "support_ids": np.asarray([7, 9, 8], np.int32),
            "routed_experts": np.asarray([[[0, 3]], [[1, 2]]], np.int16),
        },
    )  # fmt: skip
    groups = [group(episode(forest.segments), other())]
    (found,) = travel(tmp_path, groups, Part(rules=BatchRules(max_lag=0, support="replayed")))
    assert found.batch.support is not None and found.batch.routed_experts is not None
    assert np.diff(found.batch.support.offsets).tolist() == [0, 0, 2, 1, 0, 0, 0, 0]
    assert found.batch.routed_experts[:, 0].tolist() == [[-1, -1]] * 2 + [[0, 3], [1, 2]] + [[-1, -1]] * 4
    (micro, _) = sorted(cut(found.plan, token_budget=1), key=lambda m: m.rows)
    assert micro.support is not None and micro.support.token_ids.tolist() == [7, 9, 8]
    assert found.batch.temperature[2:4].tolist() == pytest.approx([0.7] * 2)


def test_an_unscored_member_an_empty_turn_and_a_group_of_one(tmp_path):
    empty = Forest()
    empty.add("task", 2)
    empty.add("policy", 0, finish="stop_string")
    empty.add("environment", 1)
    empty.add("policy", 2, turn=1)
    whole = group(episode(empty.segments), other(), other(slot=2, outcome="grader_error"))
    alone = group(episode(answer(), group=1))
    (found,) = travel(tmp_path, [whole, alone])
    nothing = found.receipts[NAME, 1]
    assert (nothing.num_eligible, nothing.influence, len(numbers(nothing.token_weight))) == (0, 0.0, 0)
    unscored = found.receipts["t000000-02-0", 1]
    assert (unscored.untrained_reason, unscored.num_kept) == ("unscored", 0)
    single = found.receipts["t000001-00-0", 1]
    assert (single.untrained_reason, single.influence) == ("zero_contrast", 0.0)
    # The unscored member leaves the denominator; the group of one, whose advantage is 0, stays in it.
    assert found.plan.denominators == {"policy_gradient": 6.0}
    assert numbers(single.token_weight).tolist() == pytest.approx([1 / 6] * 2)
    assert numbers(found.receipts[NAME, 3].advantage).tolist() == [0.5, 0.5]
