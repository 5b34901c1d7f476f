"""Alarms: when they rise, when they are silent, and that a watch shown the past is the watch that saw it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.evidence.gates import read_gates
from rollwright.record import Metric
from rollwright.record.gates import Bound
from rollwright.runtime.alarms import RAISED, AlarmRule, AlarmWatch, Observed, Raised, Series
from rollwright.runtime.checkpoints import read_progress
from rollwright.runtime.errors import RunPausedError
from rollwright.runtime.loop import Loop
from rollwright.runtime.saving import CheckpointRule
from tests.evidence.runs import metric
from tests.runtime.fakes import NOON
from tests.runtime.loops import end, make_world, rl, warm_start

Rule = Literal["threshold", "ratio", "change"]


def alarm(
    *,
    rule: Rule = "threshold",
    at_least: float | None = None,
    at_most: float | None = None,
    first: int = 2,
    in_a_row: int = 2,
    action: Literal["warn", "pause"] = "pause",
    name: str = "entropy/full",
    labels: dict[str, str] | None = None,
    minus: Series | None = None,
) -> AlarmRule:
    bound = Bound(side="at_most", limit=at_most) if at_most is not None else Bound(side="at_least", limit=at_least or 0)
    return AlarmRule(
        name="watched",
        series=Series(metric=name, labels=labels or {}),
        minus=minus,
        rule=rule,
        first=first,
        in_a_row=in_a_row,
        bound=bound,
        action=action,
        label="I",
        source="by hand",
    )


def shown(watch: AlarmWatch, values: Sequence[float | None], *, start: int = 1) -> list[Raised]:
    found: list[Raised] = []
    for step, value in enumerate(values, start):
        made = [] if value is None else [metric("entropy/full", value, step=step, update=step, model="policy")]
        found += watch.see(Observed(step=step, metrics=made))
    return found


def steps(raised: Sequence[Raised]) -> list[int]:
    return [one.step for one in raised if one.verdict.measured.value is not None]


@pytest.mark.parametrize(
    ("values", "due"),
    [
        ([1.0, 0.4, 0.4], [3]),
        ([1.0, 0.4, 1.0, 0.4, 1.0], []),
        ([0.4, 0.4, 0.4, 0.4], [2]),
        ([0.4, 0.4, 1.0, 0.4, 0.4], [2, 5]),
        ([0.4, None, 0.4], [3]),
        ([0.5, 0.5, 0.5], []),
    ],
)
def test_an_alarm_rises_after_so_many_steps_in_a_row_and_anew_only_once_it_has_fallen(
    values: list[float | None], due: list[int]
):
    assert steps(shown(AlarmWatch([alarm(at_least=0.5)]), values)) == due


def test_a_ratio_is_to_the_mean_of_the_first_steps_and_judges_none_of_them():
    raised = shown(AlarmWatch([alarm(rule="ratio", at_least=0.5, in_a_row=1)]), [3.0, 1.0, 1.0, 0.9])
    assert steps(raised) == [4]
    assert raised[0].verdict.measured.value == pytest.approx(0.45)
    assert "the mean of the first 2 steps 2" in str(raised[0])


def test_a_change_is_from_the_mean_of_the_first_steps():
    raised = shown(AlarmWatch([alarm(rule="change", at_most=1.0, in_a_row=1)]), [-3.0, -1.0, -1.0, -0.5])
    assert steps(raised) == [4]
    assert raised[0].verdict.measured.value == pytest.approx(1.5)


def test_a_verdict_has_the_numbers_and_the_steps_that_they_are_of():
    (raised,) = shown(AlarmWatch([alarm(at_least=0.5)]), [1.0, 0.25, 0.125])
    assert (raised.first_step, raised.step) == (2, 3)
    assert raised.verdict.outcome == "failed"
    assert "steps 2 to 3: 0.25, 0.125" in str(raised)


def test_a_ratio_to_nothing_is_said_once_and_raises_nothing():
    raised = shown(AlarmWatch([alarm(rule="ratio", at_least=0.5)]), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert [one.verdict.outcome for one in raised] == ["not enough evidence"]
    assert "says nothing" in str(raised[0])
    assert not raised[0].pauses


def test_a_metric_that_is_never_written_is_named_once():
    raised = shown(AlarmWatch([alarm(at_least=0.5)]), [None] * 20)
    assert [(one.step, one.verdict.outcome, one.pauses) for one in raised] == [(5, "not enough evidence", False)]
    assert "hears nothing" in str(raised[0])


def test_a_gap_between_two_metrics_needs_both():
    gap = alarm(
        at_most=0.3,
        in_a_row=1,
        name="reward/total",
        minus=Series(metric="reward/component", labels={"component": "second"}),
    )
    watch = AlarmWatch([gap])
    total = metric("reward/total", 0.9, step=1)
    other = metric("reward/component", 0.5, step=1, component="second")
    spread = metric("reward/component", 0.0, step=1, component="second", stat="std")
    assert watch.see(Observed(step=1, metrics=[total, spread])) == ()
    (raised,) = watch.see(Observed(step=2, metrics=[total, other, spread]))
    assert raised.verdict.measured.value == pytest.approx(0.4)


def test_of_several_updates_of_a_step_the_one_farthest_beyond_the_bound_counts_and_other_models_do_not():
    series = Series(metric="policy/kl_beh", labels={})
    rows: list[Metric] = [
        metric("policy/kl_beh", 0.2, step=1, update=2, model="policy"),
        metric("policy/kl_beh", 0.1, step=1, update=1, model="policy"),
        metric("policy/kl_beh", None, step=1, update=3, model="policy"),
        metric("policy/kl_beh", 9.0, step=1, update=4, model="critic"),
        metric("policy/kl_beh", 8.0, step=1, update=4, model="policy", source="a"),
    ]
    assert series.values(rows) == {1: 0.1, 2: 0.2}
    assert Series(metric="policy/kl_beh", labels={"model": "critic"}).values(rows) == {4: 9.0}
    rows.append(metric("policy/kl_beh", 0.9, step=1, update=0, model="policy"))
    (high,) = AlarmWatch([alarm(at_most=0.5, in_a_row=1, name="policy/kl_beh")]).see(Observed(step=1, metrics=rows))
    assert high.verdict.measured.value == 0.9
    (low,) = AlarmWatch([alarm(at_least=0.15, in_a_row=1, name="policy/kl_beh")]).see(Observed(step=1, metrics=rows))
    assert low.verdict.measured.value == 0.1


def test_a_difference_is_taken_update_by_update_and_its_worst_counts():
    rows = [
        metric(name, value, step=1, update=update, model="policy")
        for name, values in {"policy/kl_beh": (0.9, 0.2), "policy/kl_ref": (0.1, 0.1)}.items()
        for update, value in enumerate(values)
    ]
    minus = Series(metric="policy/kl_ref", labels={})
    (found,) = AlarmWatch([alarm(at_most=0.5, in_a_row=1, name="policy/kl_beh", minus=minus)]).see(
        Observed(step=1, metrics=rows)
    )
    assert found.verdict.measured.value == pytest.approx(0.8)


def test_what_a_person_acknowledged_rises_and_does_not_pause():
    (raised,) = shown(AlarmWatch([alarm(at_least=0.5)], frozenset({("watched", 3)})), [1.0, 0.4, 0.4])
    assert not raised.pauses
    (other,) = shown(AlarmWatch([alarm(at_least=0.5)], frozenset({("watched", 2)})), [1.0, 0.4, 0.4])
    assert other.pauses


maybe = st.one_of(st.none(), st.floats(0, 2, width=32))


@given(st.lists(maybe, max_size=14), st.integers(0, 14), st.sampled_from(("threshold", "ratio", "change")))
def test_a_watch_shown_the_past_rises_as_one_that_was_never_stopped(
    values: list[float | None], stopped: int, rule: Rule
):
    whole = shown(AlarmWatch([alarm(rule=rule, at_least=0.5)]), values)
    again = AlarmWatch([alarm(rule=rule, at_least=0.5)])
    before = shown(again, values[:stopped])
    after = shown(again, values[stopped:], start=stopped + 1)
    assert [str(one) for one in (*before, *after)] == [str(one) for one in whole]


@given(st.lists(st.floats(0, 2, width=32), max_size=14))
def test_a_pause_is_always_over_steps_that_all_lie_beyond_the_limit(values: list[float]):
    for raised in shown(AlarmWatch([alarm(at_least=0.5, in_a_row=3)]), values):
        if raised.verdict.measured.value is not None:
            assert all(value < 0.5 for value in values[raised.first_step - 1 : raised.step])
            assert raised.step - raised.first_step == 2


def reward_alarm(**settings) -> AlarmRule:
    """Every reward of the world is at most 1, so this rises after two steps of the RL stage."""
    return alarm(name="reward/total", at_least=2.0, in_a_row=2, **settings)


def paused(path: Path, rule: AlarmRule, *, every: int = 1, acknowledged: frozenset[tuple[str, int]] = frozenset()):
    world = make_world(path)
    parts = world.parts(
        [warm_start(world, steps=2), rl(world, steps=4)], checkpoints=CheckpointRule(every=every, keep=50, keep_every=0)
    )
    parts = replace(parts, alarms=AlarmWatch([rule], acknowledged))
    return world, asyncio.run(_outcome(Loop(parts)))


async def _outcome(loop: Loop) -> RunPausedError | None:
    try:
        await loop.run()
    except RunPausedError as error:
        return error
    return None


@pytest.mark.parametrize("every", [1, 10])
def test_a_paused_run_has_saved_its_last_step_whole(tmp_path: Path, every: int):
    world, error = paused(tmp_path / "run", reward_alarm(), every=every)
    assert error is not None
    checkpoint = world.folder.newest_checkpoint().chosen
    assert checkpoint is not None
    assert checkpoint.step == 4 == world.folder.commits[-1].step
    assert read_progress(checkpoint).stage_step == 2
    assert "--acknowledge" in str(error)
    assert "steps 3 to 4" in str(error)
    end(world)


def test_an_alarm_is_kept_as_an_event_and_as_a_verdict(tmp_path: Path):
    world, _ = paused(tmp_path / "run", reward_alarm())
    (event,) = [one for one in world.folder.events() if one.kind == RAISED]
    assert (event.step, event.fields["alarm"], event.fields["action"]) == (4, "watched", "pause")
    (kept,) = read_gates(world.folder.path)
    assert (kept.purpose, kept.first_step, kept.step, kept.action) == ("alarm", 3, 4, "pause")
    assert kept.verdict.outcome == "failed"
    assert kept.at == NOON
    end(world)


def test_an_alarm_that_warns_tells_and_lets_the_run_go_on(tmp_path: Path):
    world, error = paused(tmp_path / "run", reward_alarm(action="warn"))
    assert error is None
    assert [sentence for sentence in world.listener.warnings if "alarm watched rose at step 4" in sentence]
    assert world.folder.commits[-1].step == 6
    end(world)


def test_the_warm_start_raises_no_alarm_of_the_rl_stage(tmp_path: Path):
    world, error = paused(tmp_path / "run", alarm(name="len/response", at_most=0.0, in_a_row=1))
    assert error is not None
    assert world.folder.commits[-1].step == 3
    end(world)


def test_an_alarm_at_the_last_step_pauses_a_run_that_has_nothing_left_to_do(tmp_path: Path):
    rule = alarm(name="reward/total", at_least=2.0, in_a_row=4)
    world, error = paused(tmp_path / "run", rule)
    assert error is not None
    assert world.folder.commits[-1].step == 6
    end(world)
