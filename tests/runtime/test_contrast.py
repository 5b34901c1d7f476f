"""Dynamic sampling: groups without contrast are counted, filtered and replaced, up to a cap, in any order of ending."""

import numpy as np
import pytest

from rollwright.algorithms.sampling.dynamic_sampling import AtCap
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.buffer import RefillRule
from rollwright.runtime.errors import NoProgressError
from tests.cases import case
from tests.runtime.dispatching import Episodes, Run, sources


def dead(*groups):
    """Both attempts of these groups are paid alike."""
    return lambda t: 0.0 if t.group_id in groups else float(t.slot % 2)


def run_of(outcomes, *, most_extra=4, at_cap: AtCap = "best_available", seconds=lambda a: 1.0, max_lag=0, groups=2):
    return Run(
        episodes=Episodes(seconds),
        order=lambda: sources({"made": 1.0}),
        admission=AdmissionRule(batch_slots=2 * groups, group_size=2, max_lag=max_lag),
        rules={"refill": RefillRule(most_extra=most_extra, at_cap=at_cap)},
        outcomes=outcomes,
    )


@pytest.mark.row("S161")
@pytest.mark.row("S256")
def test_groups_without_contrast_are_recorded_filtered_by_rule_and_replaced():
    run = run_of(dead(0, 3)).steps(2)
    assert [[g.group_id for g in b.groups] for b in run.batches] == [[1, 2], [4, 5]]
    filtered = {(r.group_id, r.slot, r.rule) for r in run.rows if r.state == "filtered"}
    assert filtered == {(g, s, "no_contrast") for g in (0, 3) for s in (0, 1)}
    assert [[m.trajectory_id for m in b.others] for b in run.batches] == [
        ["t000000-00-0", "t000000-01-0"],
        ["t000003-00-0", "t000003-01-0"],
    ]
    assert run.balance.by_state == {"trained": 8, "filtered": 4}


def test_what_had_no_contrast_is_counted_before_the_filter_takes_it():
    run = run_of(dead(0, 3)).steps(2)
    for name in ("reward/zero_var_frac", "reward/all_wrong"):
        assert run.measure(name, when="before_filter") == [pytest.approx(1 / 3), pytest.approx(1 / 3)]
    assert run.measure("reward/all_right", when="before_filter") == [0, 0]
    assert run.measure("data/filtered", source="made") == [1, 1]


@pytest.mark.parametrize("salt", range(6))
@pytest.mark.parametrize("at_cap", ["best_available", "smaller"])
def test_the_batches_are_the_same_whatever_ends_first(salt, at_cap):
    dead_ones = (0, 1, 2, 4, 5, 7, 8, 9, 13)
    chance = np.random.default_rng(salt).permutation(200)
    run = run_of(dead(*dead_ones), most_extra=3, at_cap=at_cap, seconds=lambda a: 1.0 + chance[a.group_id], groups=3)
    run.steps(3)
    straight = run_of(dead(*dead_ones), most_extra=3, at_cap=at_cap, groups=3).steps(3)
    assert [[g.group_id for g in b.groups] for b in run.batches] == [
        [g.group_id for g in b.groups] for b in straight.batches
    ]
    assert [(r.group_id, r.slot, r.state, r.rule) for r in sorted(run.rows, key=lambda r: (r.group_id, r.slot))] == [
        (r.group_id, r.slot, r.state, r.rule) for r in sorted(straight.rows, key=lambda r: (r.group_id, r.slot))
    ]


def test_at_the_cap_the_batch_is_filled_with_what_there_is():
    run = run_of(dead(*range(6)), most_extra=2).steps(2)
    assert [[g.group_id for g in b.groups] for b in run.batches] == [[0, 1], [6, 7]]
    assert run.balance.by_state == {"trained": 8, "filtered": 8}


def test_at_the_cap_a_smaller_batch_is_trained_and_the_next_step_starts_no_more_than_its_own():
    run = run_of(dead(0, 1, 2), most_extra=2, at_cap="smaller").steps(3)
    assert [[g.group_id for g in b.groups] for b in run.batches] == [[3], [4, 5], [6, 7]]
    assert run.state.trained_slots == 12 and run.balance.by_state == {"trained": 10, "filtered": 6}


@pytest.mark.case("F42")
def test_where_all_are_dead_the_run_ends_and_names_what_was_kept_and_seen():
    worked = case("F42")
    most = (worked.input["max_rounds"] - 1) * 3 + 1
    run = run_of(lambda t: 1.0, most_extra=most, at_cap="refuse")
    with pytest.raises(NoProgressError, match=r"kept 0 groups .*, seen 9: 9 have no contrast.* rewards are \[1\.0\]"):
        try:
            run.steps(1)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors


@pytest.mark.parametrize("max_lag", [1, 3])
def test_with_lag_too_each_batch_has_contrast_and_the_account_balances_over_a_restart(max_lag):
    def outcomes(trajectory):
        return 0.0 if trajectory.group_id % 3 == 0 else float(trajectory.slot % 2)

    run = run_of(outcomes, most_extra=8, max_lag=max_lag, seconds=lambda a: 1.0 + a.group_id % 4).steps(5).steps(5)
    assert all(g.group_id % 3 for g in run.groups) and len(run.groups) == 20
    assert sum(run.balance.by_state.values()) == run.balance.dispatched


def test_an_unscored_member_gives_no_contrast():
    run = run_of(lambda t: "grader_error" if t.slot else 1.0, most_extra=1).steps(1)
    assert run.measure("data/filtered", source="made") == [1]
