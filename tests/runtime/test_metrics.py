"""The metrics of a step: per episode, before any weighting, undefined where there is nothing to count."""

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest

from rollwright.record import RewardComponent, ScoredTrajectory, TerminalReason, branches, unscored
from rollwright.runtime.metrics import StepClock, StepEpisodes, step_metrics
from rollwright.runtime.parts import Attempt
from rollwright.runtime.timebook import PartTimes
from rollwright.verifiers import Composition, FunctionVerifier, Grade, Part
from tests.cases import case
from tests.runtime.fakes import NOON, ended, task, with_calls
from tests.verifiers.submissions import submitted

PARTS = PartTimes(seconds={("engine", "busy"): 1.5})
CLOCK = StepClock(collect_s=2.0, learn_s=1.0, publish_s=0.5, save_s=0.25, parts=PARTS)


def member(
    slot,
    outcome,
    *,
    group=0,
    source="made",
    components=(),
    tokens=1,
    says=3,
    statuses=(),
    tools=(),
    reason=TerminalReason.MODEL_END,
):
    trajectory = ended(
        Attempt(
            purpose="train",
            stage="rl",
            group_id=group,
            slot=slot,
            attempt=0,
            task=replace(task(0), task_id=f"{source}/{0:016x}", source=source),
        ),
        reason,
    )
    shown, said = trajectory.segments
    said = replace(said, token_ids=np.full(tokens, says, np.int32), behavior_logprobs=np.full(tokens, -0.5, np.float32))
    trajectory = with_calls(replace(trajectory, segments=(shown, said)), statuses, tools=tools)
    if isinstance(outcome, str):
        return unscored(trajectory, outcome)
    return ScoredTrajectory(
        trajectory=trajectory,
        verdicts=(),
        outcome=outcome,
        reward_rule="made",
        reward_components=tuple(RewardComponent(name=n, value=v, weight=w) for n, v, w in components),
        verifying_s=0.0,
    )


def measured(members, *, others=(), balance=None, clock=CLOCK):
    episodes = StepEpisodes(members=members, others=others, success_at=1.0)
    return step_metrics(4, episodes, balance=balance or {}, clock=clock, now=NOON)


def value(metrics, name, **labels):
    (found,) = [m for m in metrics if m.name == name and dict(m.labels) == labels]
    return found.value


def test_the_reward_counts_each_episode_once_however_long_it_is():
    metrics = measured([member(0, 1.0, tokens=1), member(1, 0.0, tokens=99), member(2, 0.0, tokens=99)])
    assert value(metrics, "reward/total") == pytest.approx(1 / 3)
    assert value(metrics, "len/response") == pytest.approx(199 / 3)


def test_the_reward_is_labelled_by_source_and_its_components_are_raw():
    metrics = measured(
        [
            member(0, 0.7, source="arithmetic", components=[("answer", 1.0, 0.7), ("format", 0.0, 0.3)]),
            member(1, 0.3, source="arithmetic", components=[("answer", 0.0, 0.7), ("format", 1.0, 0.3)]),
            member(2, 1.0, source="code", components=[("answer", 1.0, 1.0)]),
        ]
    )
    assert value(metrics, "reward/total", source="arithmetic") == pytest.approx(0.5)
    assert value(metrics, "reward/total", source="code") == 1.0
    assert value(metrics, "reward/component", component="answer") == pytest.approx(2 / 3)
    assert value(metrics, "reward/component", component="format") == pytest.approx(0.5)


def test_unscored_episodes_are_counted_and_leave_the_reward():
    metrics = measured([member(0, 1.0), member(1, "grader_error"), member(2, 0.0)])
    assert value(metrics, "reward/total") == 0.5
    assert value(metrics, "data/unscored") == 1.0


def test_where_nothing_was_scored_the_reward_is_undefined_and_never_0():
    metrics = measured([member(0, "demonstration")])
    assert value(metrics, "reward/total") is None and value(metrics, "data/unscored") == 1.0


def test_slots_and_seconds_are_written_as_they_were_given():
    metrics = measured([member(0, 1.0, tokens=8)], balance={"trained": 8, "failed": 1})
    assert value(metrics, "data/slots", state="trained") == 8.0 and value(metrics, "data/slots", state="failed") == 1.0
    assert [value(metrics, f"time/{n}") for n in ("collect", "learn", "publish")] == [2.0, 1.0, 0.5]
    assert value(metrics, "sys/tokens_s") == 4.0
    assert value(measured([member(0, 1.0)], clock=replace(CLOCK, collect_s=0.0)), "sys/tokens_s") is None


def test_every_metric_is_of_the_step_and_no_two_have_one_key():
    metrics = measured([member(0, 1.0, components=[("answer", 1.0, 1.0)]), member(1, "grader_error")])
    assert {(m.step, m.update, m.recorded_at) for m in metrics} == {(4, 0, NOON)}
    keys = [(m.name, tuple(sorted(m.labels.items()))) for m in metrics]
    assert len(keys) == len(set(keys))


def test_a_step_without_episodes_has_no_means():
    metrics = measured([])
    assert {m.value for m in metrics if m.name in ("reward/total", "len/response")} == {None}


@pytest.mark.case("F118")
def test_the_reward_is_a_mean_over_episodes_before_and_after_the_filter():
    given, expect = case("F118").input, case("F118").expect

    def with_rows(scored, rows):
        """So many branches: contexts of their own behind the first one."""
        shown, said = scored.trajectory.segments
        more = [
            part
            for n in range(1, rows)
            for part in (
                replace(shown, segment=2 * n, context=n),
                replace(said, segment=2 * n + 1, parent=2 * n, context=n),
            )
        ]
        return replace(scored, trajectory=replace(scored.trajectory, segments=(shown, said, *more)))

    ended_ = [with_rows(member(slot, float(e["reward"])), e["rows"]) for slot, e in enumerate(given["episodes"])]
    assert [len(branches(m.trajectory.segments)) for m in ended_] == [e["rows"] for e in given["episodes"]]
    kept = [m for m, e in zip(ended_, given["episodes"], strict=True) if e["kept"]]
    filtered = [m for m in ended_ if m not in kept]
    metrics = measured(kept, others=[*filtered, member(9, "infrastructure_failure")])
    assert value(metrics, "reward/total") == expect["reward_mean_kept"]
    assert value(metrics, "reward/total", when="before_filter") == pytest.approx(expect["reward_mean_all"])


@pytest.mark.case("F118")
def test_the_logged_reward_is_weighted_as_it_is_trained():
    given, expect = case("F118").input["two_rewards"], case("F118").expect
    parts = [
        Part(verifier=FunctionVerifier(name=name, revision="1", grade=lambda _, v=v: Grade(value=v)), weight=w)
        for name, v, w in zip(("answer", "form"), given["values"], given["weights"], strict=True)
    ]
    (score,) = asyncio.run(Composition(parts).score([submitted("7")]))
    paid = replace(member(0, 0.0), outcome=score.outcome, reward_components=score.reward_components)
    metrics = measured([paid])
    assert value(metrics, "reward/total") == pytest.approx(expect["weighted_sum"])
    assert [value(metrics, "reward/component", component=name) for name in ("answer", "form")] == given["values"]


def test_lengths_are_split_by_outcome_and_cuts_by_reason():
    limit = TerminalReason.TOKEN_LIMIT
    members = [member(0, 1.0, tokens=2), member(1, 0.0, tokens=6, reason=limit), member(2, 0.0, tokens=10)]
    metrics = measured([*members, member(3, "grader_error", tokens=2)])
    assert value(metrics, "len/response", quantile="0.5") == 4.0
    assert value(metrics, "len/response", quantile="0.5", outcome="right") == 2.0
    assert value(metrics, "len/response", quantile="0.5", outcome="wrong") == 8.0
    assert value(metrics, "len/trunc_rate") == value(metrics, "len/trunc_rate", reason="token_limit") == 0.25


def test_the_spread_of_a_reward_is_that_of_its_episodes():
    parts = [("answer", 1.0, 1.0)]
    metrics = measured([member(0, 1.0, components=parts), member(1, 0.0, components=[("answer", 0.0, 1.0)])])
    assert value(metrics, "reward/total", stat="std") == 0.5
    assert value(metrics, "reward/component", component="answer", stat="std") == 0.5


def test_calls_are_counted_by_what_became_of_them():
    metrics = measured([member(0, 1.0, statuses=["ok", "timeout", "tool_error", "invalid_call"]), member(1, 0.0)])
    assert value(metrics, "env/tool_calls") == 2.0
    assert [value(metrics, f"env/{name}") for name in ("invalid_action", "tool_error", "timeout")] == [0.25] * 3
    assert value(metrics, "env/tool_latency") == 0.5
    assert value(metrics, "env/steps") == 1.0


def test_prompts_are_counted_by_how_often_they_are_solved():
    rewards = {0: [0.0, 0.0], 1: [1.0, 0.0], 2: [1.0, 1.0], 3: [1.0, 1.0, 1.0, 0.0]}
    members = [member(slot, r, group=g) for g, given in rewards.items() for slot, r in enumerate(given)]
    metrics = measured([*members, member(0, "grader_error", group=4)])
    shares = {m.labels["bucket"]: m.value for m in metrics if m.name == "reward/hist_by_prompt"}
    assert shares == {"0": 0.25, "(0,0.25]": 0.0, "(0.25,0.5]": 0.25, "(0.5,0.75]": 0.25, "(0.75,1)": 0.0, "1": 0.25}


def test_variety_is_that_of_the_attempts_at_one_task():
    both = ["ok", "ok"]
    members = [
        member(0, 1.0, says=3, statuses=both, tools=["calculator", "search"]),
        member(1, 1.0, says=3),
        member(0, 1.0, group=1, says=3, statuses=both, tools=["calculator", "calculator"]),
        member(1, 1.0, group=1, says=4),
    ]
    metrics = measured(members)
    # One of two repeats in the first group, none in the second; one bit of choice in the first, none in the second.
    assert value(metrics, "explore/repeated_traj_rate") == 0.25
    assert value(metrics, "explore/tool_choice_entropy") == pytest.approx(math.log(2) / 2)


# ---------------------------------------------------------------------------------------------------------- causes


def test_the_share_of_each_cause_is_of_every_attempt_and_by_source():
    batch = [
        member(0, 1.0, source="a"),
        member(1, "grader_error", source="a"),
        member(2, 0.0, source="b", reason=TerminalReason.TOKEN_LIMIT),
        member(3, "timeout", source="b"),
        member(4, "unparsable_judge", source="b"),
    ]
    others = [
        member(0, "infrastructure_failure", source="a", reason=TerminalReason.INFRASTRUCTURE_FAILURE),
        member(2, "superseded", source="b", reason=TerminalReason.SUPERSEDED),
        member(3, "superseded", source="b", reason=TerminalReason.SUPERSEDED),
    ]
    metrics = measured(batch, others=others)
    ends = {"infrastructure_failure": 1, "superseded": 2, "token_limit": 1, "model_end": 4}
    assert {r: value(metrics, "terminal/attempts", reason=r) for r in ends} == {r: n / 8 for r, n in ends.items()}
    assert value(metrics, "terminal/attempts", reason="superseded", source="b") == 2 / 5
    assert value(metrics, "terminal/attempts", reason="infrastructure_failure", source="a") == 1 / 3
    causes = {"grader_error": 1, "timeout": 1, "unparsable_judge": 1, "infrastructure_failure": 1, "superseded": 2}
    assert {c: value(metrics, "data/unscored_share", cause=c) for c in causes} == {c: n / 8 for c, n in causes.items()}
    assert value(metrics, "data/unscored_share") == 6 / 8
    assert value(metrics, "data/unscored_share", source="a") == 2 / 3
    assert value(metrics, "data/unscored_share", source="a", cause="grader_error") == 1 / 3
    assert value(metrics, "sys/infra_excluded") == 1 and value(metrics, "data/parked") == 2
    # What was trained is told apart as before.
    assert value(metrics, "terminal/reason", reason="model_end") == 4 / 5 and value(metrics, "data/unscored") == 3


def test_a_call_that_a_rule_refused_is_a_violation_of_its_episode():
    metrics = measured([member(0, 1.0, statuses=["ok", "refused", "refused"]), member(1, 1.0, statuses=["tool_error"])])
    assert value(metrics, "env/violation") == 0.5
