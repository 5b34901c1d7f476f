"""What became of attempts, and what they were paid part by part: counted by hand."""

from dataclasses import replace

import pytest

from rollwright.record import Group, TerminalReason
from rollwright.rollout.parking import REPLAYED_OTHERWISE
from rollwright.runtime.episode_strata import episode_strata_metrics
from rollwright.runtime.flow_metrics import MOST_TASKS, flow_metrics
from tests.runtime.ledger_rows import ledger_row
from tests.runtime.test_metrics import member


def grouped(*members, size=None):
    first = members[0].trajectory
    return Group(group_id=first.group_id, task=first.task, size=size or len(members), members=tuple(members))


def value(numbers, name, **labels):
    (found,) = [n for n in numbers if n.name == name and dict(n.labels) == labels]
    return found.value


def of_task(one, name):
    task = replace(one.trajectory.task, task_id=name)
    return replace(one, trajectory=replace(one.trajectory, task=task))


def test_attempts_that_a_limit_cut_and_that_were_made_anew_are_counted_by_source_trained_or_not():
    cut = member(1, 0.0, source="math", reason=TerminalReason.TOKEN_LIMIT)
    again = member(0, 1.0, source="code")
    again = replace(again, trajectory=replace(again.trajectory, lineage="retry_of"))
    numbers = list(flow_metrics([grouped(again, member(1, 0.0, source="code"))], [cut], [], success_at=1.0))
    assert value(numbers, "data/truncated", source="math") == 1
    assert value(numbers, "data/truncated", source="code") == 0
    assert value(numbers, "data/retried", source="code") == 1


def test_rejections_are_shares_of_what_ended_by_rule_source_length_and_task():
    trained = [of_task(member(n, 1.0, source="code"), "code/kept") for n in range(3)]
    lost = of_task(member(9, 0.0, group=2, source="math", tokens=200), "math/lost")
    rows = [*(ledger_row(m, "trained") for m in trained), ledger_row(lost, "filtered", rule="no_contrast")]
    numbers = list(flow_metrics([grouped(*trained)], [lost], rows, success_at=1.0))
    assert value(numbers, "data/rejected") == 1 / 4
    assert value(numbers, "data/rejected", rule="no_contrast") == 1 / 4
    assert value(numbers, "data/rejected", source="math") == 1.0
    assert value(numbers, "data/rejected", source="code") == 0.0
    assert value(numbers, "data/rejected", length="1-128") == 0.0
    assert value(numbers, "data/rejected", length="129-512") == 1.0
    assert value(numbers, "data/rejected", task="math/lost") == 1.0


def test_tasks_are_named_as_far_as_the_worst_ones_go():
    lost = [of_task(member(n, 0.0, group=n), f"math/{n:02d}") for n in range(MOST_TASKS + 4)]
    rows = [ledger_row(m, "expired", rule="lag") for m in lost]
    named = [n for n in flow_metrics([], lost, rows, success_at=1.0) if "task" in n.labels]
    assert [n.labels["task"] for n in named] == [f"math/{n:02d}" for n in range(MOST_TASKS)]


def test_a_parked_attempt_is_no_rejection():
    parked = member(1, "superseded", reason=TerminalReason.SUPERSEDED)
    numbers = list(flow_metrics([grouped(member(0, 1.0))], [parked], [], success_at=1.0))
    assert value(numbers, "data/rejected") == 0.0


def test_what_its_age_cut_is_a_share_of_the_slots_that_came_to_an_end():
    old, straggler, kept = member(0, 0.0), member(1, 0.0), member(2, 1.0)
    rows = [
        ledger_row(old, "expired", rule="lag"),
        ledger_row(straggler, "requeued", rule="straggler"),
        ledger_row(kept, "trained"),
        ledger_row(kept, "ready"),
    ]
    assert value(list(flow_metrics([grouped(kept)], [old], rows, success_at=1.0)), "stale/cancelled") == 2 / 3


def test_groups_that_lost_members_count_whether_they_are_trained_or_dropped():
    whole, short = grouped(member(0, 1.0), member(1, 0.0)), grouped(member(0, 1.0, group=1), size=2)
    dropped = member(0, 1.0, group=2)
    rows = [ledger_row(dropped, "filtered", rule="incomplete_group")]
    numbers = list(flow_metrics([whole, short], [dropped], rows, success_at=1.0))
    assert value(numbers, "group/incomplete") == pytest.approx(2 / 3)
    assert value(numbers, "group/dropped") == pytest.approx(1 / 3)
    assert value(numbers, "group/padded") == 0.0


def test_difficulty_before_the_filter_holds_what_the_filter_took():
    mixed = grouped(member(0, 1.0), member(1, 0.0))
    easy = [member(n, 1.0, group=1) for n in range(2)]
    numbers = list(flow_metrics([mixed], easy, [], success_at=1.0))
    assert value(numbers, "reward/difficulty", when="before_filter", bucket="1") == 0.5
    assert value(numbers, "reward/difficulty", when="before_filter", bucket="(0.25,0.5]") == 0.5
    assert value(numbers, "reward/difficulty", when="trained", bucket="1") == 0.0


def test_episodes_are_paid_part_by_part():
    members = [
        member(0, 1.0, source="code", tokens=10, components=[("answer", 1.0, 1.0)]),
        member(1, 0.0, source="code", tokens=200, components=[("answer", 0.0, 1.0)]),
        member(2, 0.5, source="math", tokens=300, reason=TerminalReason.TOKEN_LIMIT),
        member(3, "grader_error", source="math", tokens=20),
    ]
    numbers = list(episode_strata_metrics(members, step=4, success_at=1.0))
    assert value(numbers, "reward/total", source="code") == 0.5
    assert value(numbers, "reward/total", source="math") == 0.5
    assert value(numbers, "reward/total", length="129-512") == 0.25
    assert value(numbers, "reward/total", outcome="right") == 1.0
    assert value(numbers, "reward/total", advantage="positive") == 1.0
    assert value(numbers, "reward/component", component="answer", source="code") == 0.5
    assert value(numbers, "len/response", outcome="wrong") == 250.0
    assert value(numbers, "len/trunc_rate", source="math") == 0.5
    assert value(numbers, "terminal/completed", source="math") == 0.5
    assert not [n for n in numbers if n.name == "reward/total" and n.labels.get("outcome") == "unscored"]


def test_reward_and_completion_are_told_by_the_age_of_the_oldest_token():
    old, new = member(0, 0.0, reason=TerminalReason.TURN_LIMIT), member(1, 1.0)
    aged = [
        replace(
            m,
            trajectory=replace(
                m.trajectory,
                segments=tuple(
                    replace(s, policy_version=version) if s.origin == "policy" else s for s in m.trajectory.segments
                ),
            ),
        )
        for m, version in ((old, 0), (new, 3))
    ]
    numbers = list(episode_strata_metrics(aged, step=4, success_at=1.0))
    assert value(numbers, "reward/total", lag="0") == 1.0
    assert value(numbers, "reward/total", lag="3-4") == 0.0
    assert value(numbers, "terminal/completed", lag="3-4") == 0.0


def test_a_part_in_which_all_stand_together_says_nothing_new_but_for_the_source():
    labels = {label for n in episode_strata_metrics([member(0, 1.0)], step=4, success_at=1.0) for label in n.labels}
    assert labels == {"source"}


def test_episodes_gone_on_with_whose_world_did_not_replay_are_a_share_of_those_that_were():
    def resumed(slot, cause=None):
        reason = TerminalReason.MODEL_END if cause is None else TerminalReason.INFRASTRUCTURE_FAILURE
        one = member(slot, "infrastructure_failure", reason=reason) if cause else member(slot, 1.0)
        changes = {"lineage": "resumed_from", "parent_trajectory_id": "t000000-00-9", "failure_cause": cause}
        failure = "infrastructure" if cause else None
        return replace(one, trajectory=replace(one.trajectory, failure_class=failure, **changes))

    went_on = grouped(resumed(0), member(1, 0.0))
    astray = resumed(2, f"its answer to action 0 {REPLAYED_OTHERWISE} t000000-00-9, so that it cannot go on")
    numbers = list(flow_metrics([went_on], [astray], [], success_at=1.0))
    assert value(numbers, "env/replay_fail") == 0.5
    assert value(numbers, "env/crash") == pytest.approx(1 / 3)
    assert value(list(flow_metrics([grouped(member(0, 1.0))], [], [], success_at=1.0)), "env/replay_fail") is None
