"""What is measured: means over tasks, intervals by hand, pass@k, slices, and what is left out."""

import math

import pytest

from rollwright.evaluation.measures import measure
from rollwright.record import TerminalReason
from tests.cases import case, method_fixture
from tests.evaluation.held_out import noon, protocol, row_of, scored

Z = 1.959963984540054
"""The 97.5th percentile of the normal distribution, from a table."""


def rows_of(members, *, samples=1, **changes):
    return measure(protocol(samples=samples, **changes), members, step=7, now=noon())


def of_counts(counts, samples):
    """`samples` attempts at each task, of which the first so many succeed."""
    return [scored(t, float(n < c), sample=n) for t, c in enumerate(counts) for n in range(samples)]


def test_a_task_counts_once_however_many_of_its_attempts_were_scored():
    members = [scored(0, 1.0), *(scored(1, 0.0, sample=n) for n in range(3))]
    row = row_of(rows_of(members, samples=3), "success")
    assert row.value == 0.5
    assert (row.num_tasks, row.num_trajectories, row.num_unscored) == (2, 4, 0)


def test_the_interval_is_clustered_by_task_as_worked_by_hand():
    # Task means 1, 1/2, 0, 1/2: mean 1/2, sd sqrt(1/6), error sqrt(1/6)/2.
    row = row_of(rows_of(of_counts([2, 1, 0, 1], 2), samples=2), "success")
    half = Z * math.sqrt(1 / 6) / 2
    assert (row.value, row.interval_method, row.level) == (0.5, "clustered_normal", 0.95)
    assert (row.low, row.high) == pytest.approx((0.5 - half, 0.5 + half))
    assert (row.low, row.high) == pytest.approx((0.099924, 0.900076), abs=1e-6)


def test_the_interval_of_a_share_stays_within_0_and_1_and_that_of_a_reward_does_not():
    # Task means 1 and 0: mean 1/2, sd sqrt(1/2), error 1/2, half width 0.98.
    rows = rows_of([scored(0, 1.0), scored(1, 0.0)])
    share, reward = row_of(rows, "success"), row_of(rows, "reward")
    assert (share.low, share.high) == (0.0, 1.0)
    assert (reward.low, reward.high) == pytest.approx((0.5 - Z / 2, 0.5 + Z / 2))


@pytest.mark.parametrize(("outcome", "bounds"), [(1.0, (0.565518, 1.0)), (0.0, (0.0, 0.434482))])
def test_where_all_or_none_succeed_wilsons_interval_over_the_tasks_stands(outcome, bounds):
    # n/(n + z²) with n = 5 tasks and z² = 3.841459, whatever the number of samples.
    members = [scored(t, outcome, sample=n) for t in range(5) for n in range(2)]
    row = row_of(rows_of(members, samples=2), "success")
    assert (row.value, row.interval_method) == (outcome, "wilson")
    assert (row.low, row.high) == pytest.approx(bounds, abs=1e-6)


def test_equal_rewards_are_no_share_and_keep_their_clustered_interval():
    row = row_of(rows_of([scored(0, 1.0), scored(1, 1.0)]), "reward")
    assert (row.value, row.low, row.high, row.interval_method) == (1.0, 1.0, 1.0, "clustered_normal")


def test_one_task_with_a_mixed_result_has_a_value_and_no_interval():
    row = row_of(rows_of([scored(0, 1.0), scored(0, 0.0, sample=1)], samples=2), "success")
    assert (row.value, row.low, row.high, row.interval_method) == (0.5, None, None, "undefined")


def test_a_reward_of_at_least_the_threshold_is_a_success():
    rows = rows_of([scored(0, 0.5), scored(1, 0.49)], success_threshold=0.5)
    assert row_of(rows, "success").value == 0.5
    assert row_of(rows, "reward").value == pytest.approx(0.495)


def test_pass_at_k_is_worked_by_hand_for_four_attempts():
    # c = 0, 1, 3, 4 of 4. k=2: 0, 1 − 3/6, 1, 1. k=4: 0, 1, 1, 1.
    rows = rows_of(of_counts([0, 1, 3, 4], 4), samples=4)
    assert [row_of(rows, "pass_at_k", k=str(k)).value for k in (1, 2, 4)] == pytest.approx([0.5, 0.625, 0.75])
    assert {r.labels["k"] for r in rows if r.metric == "pass_at_k"} == {"1", "2", "4"}


def test_pass_at_k_is_the_unbiased_estimate_at_the_worked_counts():
    def product_form(n, c, k):
        return 1.0 if n - c < k else 1.0 - math.prod(1 - k / j for j in range(n - c + 1, n + 1))

    worked = method_fixture("M125.a")
    n, counts = worked.input["n"], worked.input["c"]
    assert [product_form(n, c, worked.input["k"]) for c in counts] == pytest.approx(
        worked.expect["pass_at_k"], abs=1e-6
    )
    rows = rows_of(of_counts(counts, n), samples=n)
    for k in (1, 2, 4, 8):
        expected = sum(product_form(n, c, k) for c in counts) / len(counts)
        assert row_of(rows, "pass_at_k", k=str(k)).value == pytest.approx(expected)


def test_a_task_with_fewer_scored_attempts_than_k_says_nothing_of_pass_at_k():
    members = [scored(0, 1.0), scored(0, 0.0, sample=1), scored(1, 0.0), scored(1, "grader_error", sample=1)]
    rows = rows_of(members, samples=2)
    assert row_of(rows, "pass_at_k", k="1").value == 0.25
    assert row_of(rows, "pass_at_k", k="2").value == 1.0


def test_unscored_attempts_are_counted_and_left_out_of_every_mean():
    members = [scored(0, 1.0, calls=("ok",)), scored(1, "grader_error", calls=("invalid_call",)), scored(2, 0.0)]
    rows = rows_of(members)
    assert row_of(rows, "success").value == 0.5
    assert row_of(rows, "reward").value == 0.5
    assert row_of(rows, "tool_use").value == 0.5
    assert row_of(rows, "tool_call_validity").value == 1.0
    assert {(r.num_trajectories, r.num_unscored) for r in rows} == {(3, 1)}
    assert row_of(rows, "success").num_tasks == 2 and row_of(rows, "missing_tasks", k="1").value == 1.0


def test_where_nothing_was_scored_every_mean_is_undefined_and_never_0():
    members = [scored(t, "infrastructure_failure", reason=TerminalReason.INFRASTRUCTURE_FAILURE) for t in (0, 1)]
    rows = rows_of(members)
    counts = {"terminal_reason", "missing_tasks", "retried_attempts"}
    measured = [r for r in rows if r.metric not in counts]
    assert {r.value for r in measured} == {None} and {r.low for r in measured} == {None}
    assert row_of(rows, "missing_tasks", k="1").value == 2.0
    assert row_of(rows, "terminal_reason", reason="infrastructure_failure").value == 1.0
    assert {r.num_unscored for r in rows} == {2}


def test_tool_calls_lengths_and_endings_are_measured():
    members = [
        scored(0, 1.0, calls=("ok", "ok")),
        scored(1, 0.0, calls=("invalid_call", "ok")),
        scored(2, 0.0, reason=TerminalReason.TOKEN_LIMIT),
    ]
    rows = rows_of(members)
    assert row_of(rows, "tool_calls").value == pytest.approx(4 / 3)
    assert row_of(rows, "tool_use").value == pytest.approx(2 / 3)
    assert row_of(rows, "tool_call_validity").value == pytest.approx(0.75)
    assert [row_of(rows, "response_tokens", quantile=q).value for q in ("0.1", "0.5", "0.9")] == [1.0, 1.0, 1.0]
    assert row_of(rows, "terminal_reason", reason="model_end").value == pytest.approx(2 / 3)
    assert row_of(rows, "terminal_reason", reason="token_limit").value == pytest.approx(1 / 3)


def test_each_slice_is_measured_by_itself_and_all_together():
    members = [
        scored(0, 1.0, part="easy"),
        scored(1, 1.0, part="easy"),
        scored(2, 0.0, part="hard"),
        scored(3, "grader_error", part="hard"),
    ]
    rows = rows_of(members)
    assert row_of(rows, "success").value == pytest.approx(2 / 3)
    easy, hard = row_of(rows, "success", slice="easy"), row_of(rows, "success", slice="hard")
    assert (easy.value, easy.num_tasks, easy.num_unscored) == (1.0, 2, 0)
    assert (hard.value, hard.num_tasks, hard.num_unscored) == (0.0, 1, 1)
    assert row_of(rows, "pass_at_k", slice="hard", k="1").value == 0.0


def test_a_single_slice_is_not_repeated():
    rows = rows_of([scored(0, 1.0, part="easy"), scored(1, 0.0, part="easy")])
    assert not [r for r in rows if "slice" in r.labels]


def test_rows_name_the_protocol_and_the_version_that_served():
    made = protocol()
    (row, *_) = measure(made, [scored(0, 1.0)], step=7, now=noon())
    assert (row.evaluation, row.protocol, row.protocol_sha256) == ("held-out@7", "held-out", made.sha256)
    assert (row.policy, row.policy_version, row.step, row.recorded_at) == ("policy", 7, 7, noon())


def test_no_two_rows_have_the_same_metric_and_labels():
    members = [scored(0, 1.0, part="easy", calls=("ok",)), scored(1, 0.0, part="hard", sample=1)]
    keys = [(r.metric, tuple(sorted(r.labels.items()))) for r in rows_of(members, samples=2)]
    assert len(keys) == len(set(keys))


@pytest.mark.case("F117")
def test_rows_that_only_pad_change_neither_mean_nor_count():
    worked = case("F117")
    scores = worked.input["scores"]
    members = [scored(t, float(s)) for t, s in enumerate(scores)]
    padding = -len(scores) % worked.input["world"]
    repeated = members + members[:padding]
    empty = members + [scored(t, "padding") for t in range(padding)]
    for padded in (members, repeated, empty):
        row = row_of(rows_of(padded), "success")
        assert row.value == pytest.approx(worked.expect["mean"])
        assert row.num_tasks == worked.expect["count"]
