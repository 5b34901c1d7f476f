"""The metrics of a step: per episode, before any weighting, undefined where there is nothing to count."""

from dataclasses import replace

import numpy as np
import pytest

from rollwright.record import RewardComponent, ScoredTrajectory, ToolCall, unscored
from rollwright.runtime.metrics import StepClock, StepEpisodes, step_metrics
from rollwright.runtime.parts import Attempt
from tests.runtime.fakes import NOON, ended, task

CLOCK = StepClock(collect_s=2.0, learn_s=1.0, publish_s=0.5)


def member(slot, outcome, *, source="made", components=(), tokens=1, statuses=()):
    trajectory = ended(
        Attempt(
            purpose="train",
            stage="rl",
            group_id=0,
            slot=slot,
            attempt=0,
            task=replace(task(0), task_id=f"{source}/{0:016x}", source=source),
        )
    )
    shown, said = trajectory.segments
    said = replace(said, token_ids=np.full(tokens, 3, np.int32), behavior_logprobs=np.full(tokens, -0.5, np.float32))
    calls = tuple(call(f"{trajectory.trajectory_id}/c{n}", status) for n, status in enumerate(statuses))
    trajectory = replace(trajectory, segments=(shown, said), tool_calls=calls)
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


def call(call_id, status):
    return ToolCall(
        call_id=call_id,
        asked_in=1,
        answered_in=None,
        turn=0,
        tool="calculator",
        tool_revision="1",
        arguments="{}",
        status=status,
        result=None,
        result_sha256=None,
        result_bytes=0,
        retention="dropped",
        started_at=NOON,
        latency_s=0.0,
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
