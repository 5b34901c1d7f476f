"""Runs side by side: what compares, by how much, at which budgets, and what does not compare and why."""

# Results of SciPy have more than their types say:
# pyright: reportAttributeAccessIssue=false

import dataclasses

import numpy as np
import pytest
from scipy import stats

from rollwright.evaluation import EvaluationError
from rollwright.evaluation.comparison import compare_runs, read_arm
from rollwright.evidence import ConfigValue, RunFolder, StoredRun, stored_evaluations
from rollwright.statistics import (
    crossed_bootstrap_interval,
    nested_bootstrap_interval,
    sharpening_tax,
    task_curves,
)
from tests.cases import method_fixture
from tests.evaluation.evaluated_runs import evaluated_run, under
from tests.evaluation.held_out import held_out, protocol
from tests.evidence import runs


def compared(*paths, **how):
    return compare_runs([read_arm([path] if not isinstance(path, list) else path) for path in paths], **how)


def of(contrast, metric, **labels):
    (found,) = [one for one in contrast.differences if one.metric == metric and dict(one.labels) == labels]
    return found


def test_an_attempt_belongs_to_the_evaluation_whose_digest_seeded_it(tmp_path):
    one, other = under(2), under(2, name="other", seed=5)
    path = evaluated_run(tmp_path / "a", (1, one, {0: [1.0], 1: [0.0]}), (2, other, {0: [1.0], 1: [1.0]}))
    found = stored_evaluations(RunFolder.open(path))
    assert [(e.protocol, e.step, sorted(e.counts.values())) for e in found] == [
        ("held-out", 1, [(1, 0), (1, 1)]),
        ("other", 2, [(1, 1), (1, 1)]),
    ]
    assert all(len(e.attempts) == 2 for e in found)
    assert found[1].facts["seed"] == "5" and found[0].success_threshold == 1.0


def test_two_protocols_of_one_commit_keep_their_attempts_apart(tmp_path):
    one, other = under(2), under(2, name="other", seed=5)
    path = evaluated_run(tmp_path / "a", (1, one, {0: [1.0], 1: [0.0]}))
    with RunFolder.open(path, "write") as folder:
        stored = StoredRun(path).trajectories([a.trajectory_id for a in stored_evaluations(folder)[0].attempts])
        rows = stored_evaluations(folder)[0].rows
        # The same episodes said to be of another protocol belong to neither.
        foreign = [
            dataclasses.replace(r, evaluation="other@1", protocol="other", protocol_sha256=other.sha256) for r in rows
        ]
        moved = [
            dataclasses.replace(
                s, trajectory=dataclasses.replace(s.trajectory, trajectory_id=f"e9{n:05d}-00-0", group_id=900000 + n)
            )
            for n, s in enumerate(stored)
        ]
        commit = runs.CommitRows(kind="evaluation", step=1, trajectories=moved, evaluations=foreign)
        folder.commit(commit, at=runs.START)
        assert [len(e.attempts) for e in stored_evaluations(folder)] == [2, 0]


def test_differences_of_tasks_are_the_worked_paired_comparison(tmp_path):
    worked = method_fixture("M133.a")
    deltas = worked.input["task_delta"]
    frozen = under(len(deltas), samples=4)
    # Of four samples each: the reference solves two, the other as many as the difference says.
    base = {task: [1.0, 1.0, 0.0, 0.0] for task in range(len(deltas))}
    moved = {task: [float(n < 2 + round(4 * d)) for n in range(4)] for task, d in enumerate(deltas)}
    a = evaluated_run(tmp_path / "a", (2, frozen, base))
    b = evaluated_run(tmp_path / "b", (2, frozen, moved))
    (contrast,) = compared(a, b).contrasts
    found = of(contrast, "success")
    assert (found.mean, found.standard_error, found.t) == pytest.approx(
        (worked.expect["mean"], worked.expect["se"], worked.expect["t"]), abs=1e-6
    )
    theirs = stats.ttest_rel([0.5 + d for d in deltas], [0.5] * len(deltas))
    interval = theirs.confidence_interval(0.95)
    assert found.p_value == pytest.approx(theirs.pvalue)
    assert found.by_student is not None and found.by_bootstrap is not None and found.mean is not None
    assert (found.by_student.low, found.by_student.high) == pytest.approx((interval.low, interval.high))
    assert found.by_bootstrap.low < found.mean < found.by_bootstrap.high
    assert (found.reference, found.other) == pytest.approx((0.5, 0.5 + worked.expect["mean"]))
    assert found.mcnemar_p is None


def test_one_attempt_a_task_gives_the_worked_exact_test_of_mcnemar(tmp_path):
    worked = method_fixture("M133.b")
    only_a, only_b = worked.input["only_a"], worked.input["only_b"]
    total = only_a + only_b + 3
    frozen = under(total)
    first = {t: [float(t < only_a or t >= only_a + only_b)] for t in range(total)}
    second = {t: [float(t >= only_a)] for t in range(total)}
    a = evaluated_run(tmp_path / "a", (2, frozen, first))
    b = evaluated_run(tmp_path / "b", (2, frozen, second))
    found = of(compared(a, b).contrasts[0], "success")
    assert found.mcnemar_p == pytest.approx(worked.expect["mcnemar_exact_p"])
    assert (found.only_reference, found.only_other) == (only_a, only_b)


def test_another_digest_is_refused_and_what_the_protocols_hold_otherwise_is_said(tmp_path):
    a = evaluated_run(tmp_path / "a", (2, under(3), {t: [1.0] for t in range(3)}))
    b = evaluated_run(tmp_path / "b", (2, under(3, samples=2, max_turns=9), {t: [1.0, 0.0] for t in range(3)}))
    found = compared(a, b)
    assert found.contrasts == ()
    (apart,) = found.apart
    assert "other digests" in apart.reason
    assert [(d.name, d.values) for d in apart.differences] == [("max_turns", ("2", "9")), ("samples", ("1", "2"))]


def test_a_protocol_that_one_run_lacks_is_said_and_the_shared_one_compares(tmp_path):
    shared, alone = under(3), under(3, name="alone", seed=4)
    values = {t: [1.0] for t in range(3)}
    a = evaluated_run(tmp_path / "a", (2, shared, values), (2, alone, values))
    b = evaluated_run(tmp_path / "b", (2, shared, values))
    found = compared(a, b)
    assert [one.protocol for one in found.contrasts] == ["held-out"]
    assert [(one.protocol, "never evaluated" in one.reason) for one in found.apart] == [("alone", True)]


def test_tasks_that_one_run_has_no_score_of_are_missing_and_in_no_mean(tmp_path):
    frozen = under(3)
    a = evaluated_run(tmp_path / "a", (2, frozen, {0: [1.0], 1: ["grader_error"], 2: [0.0]}))
    b = evaluated_run(tmp_path / "b", (2, frozen, {0: [1.0], 1: [1.0], 2: [1.0]}))
    found = of(compared(a, b).contrasts[0], "success")
    assert (found.num_tasks, found.num_missing, found.mean) == (2, 1, 0.5)


def test_runs_without_a_difference_claim_no_certainty(tmp_path):
    frozen = under(10)
    values = {t: [float(t % 2)] for t in range(10)}
    a, b = (evaluated_run(tmp_path / name, (2, frozen, values)) for name in "ab")
    found = of(compared(a, b).contrasts[0], "success")
    assert (found.mean, found.by_student, found.p_value) == (0.0, None, None)
    # Wilson's bound of 0 of 10: z²/(10 + z²).
    assert found.by_bootstrap is not None and found.by_bootstrap.method == "wilson"
    assert (found.by_bootstrap.low, found.by_bootstrap.high) == pytest.approx((-0.2775328, 0.2775328), abs=1e-6)


def test_the_tax_between_two_runs_is_that_of_their_curves(tmp_path):
    frozen = under(2, samples=8)
    before = {0: [float(n < 2) for n in range(8)], 1: [float(n < 6) for n in range(8)]}
    after = {0: [0.0] * 8, 1: [1.0] * 8}
    a = evaluated_run(tmp_path / "a", (2, frozen, before))
    b = evaluated_run(tmp_path / "b", (2, frozen, after))
    found = compared(a, b).contrasts[0].tax
    due = sharpening_tax(task_curves([(8, 2), (8, 6)], 8), task_curves([(8, 0), (8, 8)], 8))
    assert found is not None and (found.k, found.tax.area) == (8, pytest.approx(due.area))
    assert found.tax.post.area == 0.0 and found.intervals.area is not None


def test_the_newest_checkpoint_is_compared_and_unequal_budgets_are_told(tmp_path):
    frozen = under(3)
    values = {t: [1.0] for t in range(3)}
    a = evaluated_run(tmp_path / "a", (1, frozen, values), (2, frozen, values), steps=2)
    b = evaluated_run(tmp_path / "b", (2, frozen, values), (4, frozen, values), steps=4)
    (contrast,) = compared(a, b).contrasts
    assert [one.evaluation.step for one in contrast.beside] == [2, 4]
    lines = {line.budget: (line.amounts, line.is_matched) for line in contrast.budgets}
    assert lines["updates"] == ((2.0, 4.0), False)
    # Four episodes a step of five action tokens; a turn that calls and a turn that answers, one call.
    assert lines["episodes"] == ((8.0, 16.0), False)
    assert lines["tokens"] == ((40.0, 80.0), False)
    assert lines["calls"] == ((24.0, 48.0), False)


def test_a_matched_budget_takes_the_newest_checkpoint_within_what_all_had_spent(tmp_path):
    frozen = under(3)
    values = {t: [1.0] for t in range(3)}
    a = evaluated_run(tmp_path / "a", (1, frozen, values), (3, frozen, values), steps=3)
    steps = [(step, frozen, values) for step in (1, 2, 4)]
    b = evaluated_run(tmp_path / "b", *steps, steps=4)
    (contrast,) = compared(a, b, matched_by="tokens").contrasts
    assert [one.evaluation.step for one in contrast.beside] == [3, 2]
    assert (contrast.matched_by, contrast.limit) == ("tokens", 60.0)


def test_runs_on_the_same_tasks_are_crossed_and_paired_by_seed(tmp_path):
    frozen = under(4)
    rng = np.random.default_rng(5)
    draws = {name: rng.integers(0, 2, 4).astype(float) for name in ("a0", "a1", "a2", "b0", "b1", "b2")}
    paths = {
        name: evaluated_run(
            tmp_path / name,
            (2, frozen, {t: [float(v)] for t, v in enumerate(values)}),
            seeds={"run": int(name[1])},
        )
        for name, values in draws.items()
    }
    found = compared([paths["a0"], paths["a1"], paths["a2"]], [paths["b2"], paths["b0"], paths["b1"]])
    difference = of(found.contrasts[0], "success")
    deltas = np.array([draws[f"b{n}"] - draws[f"a{n}"] for n in range(3)])
    due = crossed_bootstrap_interval(deltas, seed=0, resamples=4000)
    assert difference.num_pairs == 3 and difference.mean == pytest.approx(deltas.mean())
    assert difference.by_bootstrap is not None and due is not None
    assert (difference.by_bootstrap.low, difference.by_bootstrap.high) == (due.low, due.high)
    theirs = stats.ttest_1samp(deltas.mean(axis=1), 0.0)
    assert (difference.t, difference.p_value) == pytest.approx((theirs.statistic, theirs.pvalue))


def test_runs_with_tasks_of_their_own_are_nested(tmp_path):
    solved = {"a0": (0, 0, 1), "b0": (1, 1, 1), "a1": (1, 0, 0), "b1": (1, 0, 1)}
    # Each pair has other tasks, so other seeds of its episodes.
    protocols = [protocol([held_out(10 * n + t) for t in range(3)]) for n in range(2)]
    paths = {
        name: evaluated_run(
            tmp_path / name,
            (2, protocols[n], {10 * n + t: [float(hit)] for t, hit in enumerate(hits)}),
            seeds={"run": n},
        )
        for name, hits in solved.items()
        for n in [int(name[1])]
    }
    difference = of(compared([paths["a0"], paths["a1"]], [paths["b1"], paths["b0"]]).contrasts[0], "success")
    deltas = [np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])]
    due = nested_bootstrap_interval(deltas, seed=0, resamples=4000)
    assert difference.num_pairs == 2 and difference.mean == pytest.approx(0.5)
    assert difference.by_bootstrap is not None and due is not None
    assert (difference.by_bootstrap.low, difference.by_bootstrap.high) == (due.low, due.high)
    assert difference.by_bootstrap.method == "nested_bootstrap"


def test_arms_that_cannot_be_paired_are_refused(tmp_path):
    frozen = under(2)
    values = {t: [1.0] for t in range(2)}
    made = [evaluated_run(tmp_path / f"r{n}", (2, frozen, values), seeds={"run": n}) for n in range(3)]
    with pytest.raises(EvaluationError, match="2 runs and r2 1, with no seed in common"):
        compared(made[:2], made[2])


def test_differences_of_manifests_are_grouped_and_equal_sections_are_named(tmp_path):
    frozen = under(2)
    values = {t: [1.0] for t in range(2)}
    changed = runs.manifest()
    reward = dataclasses.replace(changed.reward, rule="rule-2")
    algorithm = (dataclasses.replace(changed.algorithm[0], clip_high=0.2),)
    a = evaluated_run(tmp_path / "a", (2, frozen, values))
    b = evaluated_run(tmp_path / "b", (2, frozen, values), reward=reward, algorithm=algorithm)
    found = compared(a, b)
    assert [(f.section, f.path, f.values) for f in found.fields] == [
        ("reward", "reward.rule", ("rule-1", "rule-2")),
        ("algorithm", "algorithm.0.clip_high", ("0.28", "0.2")),
    ]
    named = "seeds code model data environment evaluation machine gates exporters"
    assert set(found.equal_sections) == set(named.split())


def test_gates_alarms_and_exporters_are_no_difference_of_the_algorithm(tmp_path):
    keys = ("gates.0.name", "alarms.0.name", "exporters.0.kind", "learner.learning_rate")
    values = tuple(ConfigValue(key=key, value='"made"', origin="file") for key in keys)
    made = {t: [1.0] for t in range(2)}
    a = evaluated_run(tmp_path / "a", (2, under(2), made))
    b = evaluated_run(tmp_path / "b", (2, under(2), made), configuration=(*runs.manifest().configuration, *values))
    assert [(f.section, f.path) for f in compared(a, b).fields] == [
        ("gates", "configuration.alarms.0.name"),
        ("gates", "configuration.gates.0.name"),
        ("exporters", "configuration.exporters.0.kind"),
        ("algorithm", "configuration.learner.learning_rate"),
    ]


def test_three_runs_are_each_compared_with_the_first(tmp_path):
    frozen = under(2)
    made = [
        evaluated_run(tmp_path / n, (2, frozen, {0: [1.0], 1: [v]}))
        for n, v in zip("abc", (0.0, 1.0, 0.0), strict=True)
    ]
    found = compared(*made)
    assert [(c.arm, of(c, "success").mean) for c in found.contrasts] == [("b", 0.5), ("c", 0.0)]
