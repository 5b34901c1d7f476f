"""Gates judged from a folder alone: the right steps, the right rows, and a question that gives the same number."""

import dataclasses
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollwright.evaluation.gates_checked import check_gates
from rollwright.evaluation.gates_of_runs import judge_run, records_of
from rollwright.evidence import CommitRows, EvidenceError, RunFolder, query
from rollwright.evidence.gates import read_gates, record_gates
from rollwright.evidence.manifest import SegmentSection
from rollwright.record import EvaluationRow
from rollwright.record.codec import ScoredVerdict
from rollwright.record.gates import GateVerdict
from tests.evaluation.gated_runs import (
    RL_ONLY,
    WARM_STEPS,
    evaluated,
    gate,
    gated_manifest,
    series,
    step_of,
    success_row,
    write_run,
)
from tests.evidence.runs import START, metric

ENTROPY = {1: 5.0, 2: 4.0, 3: 1.0, 4: 0.5, 5: 0.75, 6: 0.25}
"""Two steps of warm start, four of RL."""


def verdict_over(tmp_path: Path, values: dict[int, float | None], step: int | None = None, **subject: Any):
    run = write_run(
        tmp_path / "run",
        gated_manifest([gate(metric="entropy/full", **subject)]),
        series("entropy/full", values, model="policy"),
    )
    (judged,) = judge_run(run, step)
    if judged.verdict.measured.value is not None:
        assert query(run, judged.verdict.measured.source).rows[0][0] == judged.verdict.measured.value
    return judged.verdict


@pytest.mark.parametrize(
    ("over", "window", "since", "value", "num_items"),
    [
        ("last", 5, "warm_start", 0.25, 1),
        ("mean", 2, "warm_start", 0.5, 2),
        ("max", 5, "warm_start", 1.0, 4),
        ("min", 5, "warm_start", 0.25, 4),
        ("slope", 5, "warm_start", -0.2, 4),
        ("change", 2, "warm_start", -0.25, 4),
        ("change", 1, "start", -4.75, 2),
    ],
)
def test_a_metric_is_taken_over_the_steps_of_the_rl_stage(
    tmp_path: Path, over: str, window: int, since: str, value: float, num_items: int
):
    measured = verdict_over(tmp_path, dict(ENTROPY), over=over, window=window, since=since).measured
    assert measured.value == pytest.approx(value)
    assert measured.num_items == num_items


def test_what_came_later_than_the_judged_step_is_not_looked_at(tmp_path: Path):
    assert verdict_over(tmp_path, dict(ENTROPY), step=4, over="max").measured.value == 1.0
    assert verdict_over(tmp_path / "again", dict(ENTROPY), step=4).measured.value == 0.5


@pytest.mark.parametrize(
    ("values", "subject"),
    [
        ({}, {}),
        ({1: 5.0, 2: 4.0}, {}),
        ({3: None, 4: None}, {}),
        ({3: 1.0}, {"over": "slope"}),
        ({3: 1.0}, {"over": "mean", "window": 2}),
        ({3: 1.0, 4: None, 5: 2.0}, {"over": "change", "window": 2}),
    ],
)
def test_too_few_values_are_not_enough_evidence(
    tmp_path: Path, values: dict[int, float | None], subject: dict[str, Any]
):
    found = verdict_over(tmp_path, values, step=6, **subject)
    assert found.outcome == "not enough evidence"
    assert "entropy/full" in found.because


def test_null_is_no_number_and_no_zero(tmp_path: Path):
    measured = verdict_over(tmp_path, {3: 1.0, 4: None, 5: 0.5, 6: None}, over="mean", window=2).measured
    assert measured.value == 0.75


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.none(), st.floats(-100, 100, width=32)), min_size=1, max_size=8))
def test_numbers_are_those_of_numpy(tmp_path_factory: pytest.TempPathFactory, values: list[float | None]):
    gates = [
        gate(over, metric="entropy/full", over=over, window=2 if over in ("mean", "change") else 5)
        for over in ("last", "mean", "max", "min", "slope", "change")
    ]
    run = write_run(
        tmp_path_factory.mktemp("series") / "run",
        gated_manifest(gates, stages=RL_ONLY, steps=len(values)),
        series("entropy/full", dict(enumerate(values, 1)), model="policy"),
    )
    found = {one.gate.name: one.verdict.measured.value for one in judge_run(run)}
    steps = np.array([s for s, v in enumerate(values, 1) if v is not None], dtype=np.float64)
    there = np.array([v for v in values if v is not None], dtype=np.float64)
    due = {
        "last": there[-1] if len(there) else None,
        "max": there.max() if len(there) else None,
        "min": there.min() if len(there) else None,
        "mean": there[-2:].mean() if len(there) >= 2 else None,
        "slope": np.polyfit(steps, there, 1)[0] if len(there) >= 2 else None,
        "change": there[-2:].mean() - there[:2].mean() if len(there) >= 4 else None,
    }
    for name, value in due.items():
        assert found[name] == (None if value is None else pytest.approx(float(value), abs=1e-4)), name


def test_only_rows_with_exactly_the_named_labels_count(tmp_path: Path):
    rows = [
        metric("len/response", 10.0, step=1),
        metric("len/response", 99.0, step=1, quantile="0.9"),
        metric("len/response", 77.0, step=1, quantile="0.9", outcome="wrong"),
        metric("len/response", 55.0, step=1, model="critic"),
    ]
    gates = [
        gate("plain", metric="len/response"),
        gate("quantile", metric="len/response", labels={"quantile": "0.9"}),
        gate("critic", metric="len/response", labels={"model": "critic"}),
        gate("absent", metric="len/response", labels={"quantile": "0.1"}),
    ]
    run = write_run(tmp_path / "run", gated_manifest(gates, stages=RL_ONLY), [step_of(1, *rows)])
    found = {one.gate.name: one.verdict.measured.value for one in judge_run(run)}
    assert found == {"plain": 10.0, "quantile": 99.0, "critic": 55.0, "absent": None}


def test_of_several_updates_the_last_with_a_value_counts(tmp_path: Path):
    rows = [
        metric("policy/kl_beh", 0.1, step=1, update=1, model="policy"),
        metric("policy/kl_beh", 0.3, step=1, update=2, model="policy"),
        metric("policy/kl_beh", None, step=1, update=3, model="policy"),
    ]
    run = write_run(
        tmp_path / "run", gated_manifest([gate(metric="policy/kl_beh")], stages=RL_ONLY), [step_of(1, *rows)]
    )
    assert judge_run(run)[0].verdict.measured.value == 0.3


@pytest.mark.parametrize(("over", "value"), [("max", 0.9), ("min", 0.1), ("last", 0.3)])
def test_an_extreme_is_one_of_all_updates(tmp_path: Path, over: str, value: float):
    found = {1: 0.9, 2: 0.1, 3: 0.3}
    rows = [metric("mismatch/logp_abs", x, step=1, update=u, model="policy") for u, x in found.items()]
    made = gated_manifest([gate(metric="mismatch/logp_abs", over=over)], stages=RL_ONLY)
    run = write_run(tmp_path / "run", made, [step_of(1, *rows)])
    assert judge_run(run)[0].verdict.measured.value == value


def test_steps_that_were_abandoned_count_for_nothing(tmp_path: Path):
    made = gated_manifest([gate(metric="entropy/full", over="min")], stages=RL_ONLY)
    with RunFolder.create(tmp_path / "run", made, "[run]\n") as folder:
        for rows in series("entropy/full", {1: 1.0, 2: 0.75, 3: 0.0}, model="policy"):
            folder.commit(rows, at=START)
        folder.abandon_after(2)
        assert judge_run(folder.path)[0].verdict.measured.value == 0.75
        folder.commit(step_of(3, metric("entropy/full", 0.6, step=3, model="policy")), at=START)
        assert judge_run(folder.path)[0].verdict.measured.value == 0.6


def test_gates_are_those_that_the_run_began_with_whatever_a_later_segment_says(tmp_path: Path):
    began = gated_manifest([gate(metric="entropy/full", limit=0.5)], stages=RL_ONLY)
    loose = gated_manifest([gate(metric="entropy/full", limit=0.0)], stages=RL_ONLY)
    with RunFolder.create(tmp_path / "run", began, "[run]\n") as folder:
        folder.commit(step_of(1, metric("entropy/full", 0.25, step=1, model="policy")), at=START)
        folder.open_segment(
            dataclasses.replace(
                loose,
                segment=SegmentSection(
                    number=2,
                    reason="by hand",
                    opened_at=START,
                    after_step=1,
                    previous_sha256=folder.newest_manifest_sha256,
                    differences=(),
                ),
            )
        )
        folder.commit(step_of(2, metric("entropy/full", 0.3, step=2, model="policy")), at=START)
    (judged,) = judge_run(folder.path)
    assert judged.gate.bound.limit == 0.5
    assert judged.verdict.outcome == "failed"


def verdict_of_evaluation(tmp_path: Path, *rows: EvaluationRow, step: int = 3, **subject: Any) -> GateVerdict:
    commits = [evaluated(step, {1: 1.0, 2: 0.0}, row=row) for row in rows]
    run = write_run(
        tmp_path / "run",
        gated_manifest([gate(kind="evaluation", **subject)]),
        [step_of(step), *(dataclasses.replace(c, trajectories=()) for c in commits)],
    )
    return judge_run(run, step)[0].verdict


@pytest.mark.parametrize(
    ("by", "limit", "outcome", "value"),
    [
        ("interval", 0.4, "passed", 0.6),
        ("interval", 0.55, "not enough evidence", 0.6),
        ("interval", 0.9, "failed", 0.6),
        ("value", 0.55, "passed", 0.6),
        ("low", 0.55, "failed", 0.5),
        ("high", 0.55, "passed", 0.7),
    ],
)
def test_an_evaluation_is_held_to_the_limit_by_what_the_gate_says(
    tmp_path: Path, by: str, limit: float, outcome: str, value: float
):
    found = verdict_of_evaluation(tmp_path, success_row(3, 0.6, 0.5, 0.7), by=by, limit=limit)
    assert (found.outcome, found.measured.value, found.measured.num_items) == (outcome, value, 10)


def test_a_step_that_was_not_evaluated_is_not_enough_evidence(tmp_path: Path):
    found = verdict_of_evaluation(tmp_path)
    assert found.outcome == "not enough evidence"
    assert "rollwright eval" in found.because


def test_another_protocol_says_nothing_about_the_own_one(tmp_path: Path):
    found = verdict_of_evaluation(tmp_path, success_row(3, 1.0, 0.9, 1.0, protocol="1" * 64))
    assert found.outcome == "not enough evidence"


@pytest.mark.parametrize(
    ("fixed", "outcome"), [("1" * 64, "passed"), ("2" * 64, "not enough evidence"), ("", "not enough evidence")]
)
def test_a_protocol_is_known_by_the_digest_that_was_fixed_and_not_by_its_name(tmp_path: Path, fixed: str, outcome: str):
    made = gated_manifest([gate(kind="evaluation", protocol="greedy")])
    made = dataclasses.replace(made, digests={"protocol greedy": fixed} if fixed else {})
    row = dataclasses.replace(success_row(3, 1.0, 0.9, 1.0, protocol="1" * 64), protocol="greedy")
    commit = dataclasses.replace(evaluated(3, {1: 1.0, 2: 0.0}, row=row), trajectories=())
    found = judge_run(write_run(tmp_path / "run", made, [step_of(3), commit]), 3)[0].verdict
    assert found.outcome == outcome
    if not fixed:
        assert "begun without a protocol greedy (it has held-out)" in found.because


def test_asking_again_gives_no_second_chance(tmp_path: Path):
    again = success_row(3, 0.9, 0.85, 0.95, recorded_at=START + timedelta(hours=1), evaluation="held-out@3#7")
    found = verdict_of_evaluation(tmp_path, success_row(3, 0.2, 0.1, 0.3), again)
    assert (found.outcome, found.measured.value) == ("failed", 0.2)


def test_a_measure_without_interval_is_no_certainty(tmp_path: Path):
    found = verdict_of_evaluation(tmp_path, success_row(3, 1.0, None, None, num_tasks=1))
    assert found.outcome == "not enough evidence"
    assert "by = 'value'" in found.because


def test_a_slice_is_found_by_its_labels(tmp_path: Path):
    rows = (success_row(3, 0.9, 0.8, 1.0), success_row(3, 0.1, 0.0, 0.2, labels={"slice": "hard"}))
    assert verdict_of_evaluation(tmp_path, *rows, labels={"slice": "hard"}).measured.value == 0.1


def paired_run(tmp_path: Path, before: dict[int, float], after: dict[int, float], **subject: Any) -> Path:
    own = [
        dataclasses.replace(evaluated(0, dict.fromkeys(before, 0.0)), kind="step"),
        *(step_of(step) for step in range(1, WARM_STEPS)),
        step_of(WARM_STEPS, evaluated=evaluated(WARM_STEPS, before)),
        step_of(WARM_STEPS + 1, evaluated=evaluated(WARM_STEPS + 1, after)),
    ]
    return write_run(tmp_path / "run", gated_manifest([gate(kind="paired", limit=0.0, **subject)]), own)


def test_a_paired_difference_is_that_of_each_task_to_the_end_of_the_warm_start(tmp_path: Path):
    before = dict.fromkeys(range(20), 0.0) | {0: 1.0}
    after = dict.fromkeys(range(20), 1.0) | {1: 0.0}
    found = judge_run(paired_run(tmp_path, before, after))[0].verdict
    assert found.outcome == "passed"
    assert found.measured.value == pytest.approx(18 / 20)
    # Eighteen differences of 1 and two of 0: sd 0.3078, t of 19 degrees of freedom 2.093.
    assert found.measured.low == pytest.approx(0.9 - 2.093 * 0.3078 / np.sqrt(20), abs=1e-3)
    assert found.measured.num_items == 20


def test_a_paired_difference_to_the_first_evaluation_takes_that(tmp_path: Path):
    run = paired_run(tmp_path, dict.fromkeys(range(9), 1.0), dict.fromkeys(range(9), 1.0) | {0: 0.0}, since="start")
    assert judge_run(run)[0].verdict.measured.value == pytest.approx(8 / 9)


def test_equal_answers_of_few_tasks_are_no_certainty(tmp_path: Path):
    same = dict.fromkeys(range(5), 1.0)
    found = judge_run(paired_run(tmp_path, same, same, bound="at_least"))[0].verdict
    assert found.outcome == "not enough evidence"
    assert found.measured.value == 0.0


def test_a_checkpoint_is_not_compared_with_itself(tmp_path: Path):
    same = dict.fromkeys(range(5), 1.0)
    found = judge_run(paired_run(tmp_path, same, same), WARM_STEPS)[0].verdict
    assert found.outcome == "not enough evidence"


def test_episodes_of_another_protocol_are_left_out_of_a_pair(tmp_path: Path):
    run = paired_run(tmp_path, dict.fromkeys(range(9), 0.0), dict.fromkeys(range(9), 0.0) | {0: 1.0})
    other = evaluated(WARM_STEPS + 1, dict.fromkeys(range(9), 1.0), protocol="1" * 64, first_group=5_000_000)
    with RunFolder.open(run, "write") as folder:
        folder.commit(other, at=START)
    assert judge_run(run)[0].verdict.measured.value == pytest.approx(1 / 9)


@pytest.mark.parametrize(("figure", "value"), [("disagreement", 0.75), ("false_accepts", 1.0), ("hack_gap", 0.75)])
def test_a_verifier_that_accepts_all_is_caught_by_a_second_one(tmp_path: Path, figure: str, value: float):
    scores = dict.fromkeys(range(40), 1.0)
    second = {task: float(task % 4 == 0) for task in scores}
    second_says = {task: value for task, value in second.items() if figure != "false_accepts" or task % 4}
    run = write_run(
        tmp_path / "run",
        gated_manifest([gate(kind="audit", figure=figure, verifier="second", bound="at_most", limit=0.3)]),
        [step_of(3, evaluated=evaluated(3, scores, second=second_says))],
    )
    found = judge_run(run, 3)[0].verdict
    assert (found.outcome, found.measured.value) == ("failed", value)
    assert query(run, found.measured.source).rows[0][0] == value


def test_an_audit_is_of_the_first_evaluation_by_the_own_protocol_alone(tmp_path: Path):
    scores, wrong, right = dict.fromkeys(range(40), 1.0), dict.fromkeys(range(40), 0.0), dict.fromkeys(range(40), 1.0)
    commits = [
        step_of(3, evaluated=evaluated(3, scores, second=wrong)),
        evaluated(3, scores, second=right, protocol="1" * 64, first_group=100_000),
        evaluated(
            3, scores, second=right, first_group=200_000, row=success_row(3, 1.0, 0.9, 1.0, evaluation="held-out@3#2")
        ),
    ]
    made = gated_manifest([gate(kind="audit", verifier="second", bound="at_most", limit=0.6)])
    found = judge_run(write_run(tmp_path / "run", made, commits), 3)[0].verdict
    assert (found.outcome, found.measured.value) == ("failed", 1.0)


def test_a_later_scoring_does_not_replace_what_a_second_verifier_said_first(tmp_path: Path):
    scores, wrong = dict.fromkeys(range(40), 1.0), dict.fromkeys(range(40), 0.0)
    first = step_of(3, evaluated=evaluated(3, scores, second=wrong))
    again = [
        ScoredVerdict(scoring=1, verdict=dataclasses.replace(said, outcome=1.0, revision="second-2"))
        for member in first.trajectories
        for said in member.verdicts
        if said.verifier == "second"
    ]
    made = gated_manifest([gate(kind="audit", verifier="second", bound="at_most", limit=0.6)])
    run = write_run(tmp_path / "run", made, [first, CommitRows(kind="score", step=3, rescored=again)])
    found = judge_run(run, 3)[0].verdict
    assert again and (found.outcome, found.measured.value) == ("failed", 1.0)


def test_a_second_verifier_that_never_spoke_is_not_enough_evidence(tmp_path: Path):
    run = write_run(
        tmp_path / "run",
        gated_manifest([gate(kind="audit", verifier="second", bound="at_most")]),
        [step_of(3, evaluated=evaluated(3, dict.fromkeys(range(40), 1.0)))],
    )
    found = judge_run(run, 3)[0].verdict
    assert found.outcome == "not enough evidence"
    assert "second" in found.because


def kept_audit(number: int, value: float, low: float, high: float, *, step: int, num_items: int) -> CommitRows:
    """What `rollwright audit` keeps of the disagreement with a second verifier."""
    ends = {"": value, "lower": low, "upper": high}
    rows = [
        dataclasses.replace(
            metric("verifier/disagreement", end, step=step),
            num_items=num_items,
            labels={"audit": str(number), "verifier": "second"} | ({"bound": bound} if bound else {}),
        )
        for bound, end in ends.items()
    ]
    return CommitRows(kind="score", step=step, metrics=rows)


@pytest.mark.parametrize(("step", "outcome", "value"), [(3, "failed", 0.5), (5, "passed", 0.05), (2, None, None)])
def test_of_the_audits_up_to_a_step_the_one_of_most_items_counts(
    tmp_path: Path, step: int, outcome: str | None, value: float | None
):
    subject = {"kind": "kept_audit", "labels": {"verifier": "second"}, "bound": "at_most", "limit": 0.3}
    run = write_run(
        tmp_path / "run",
        gated_manifest([gate(**subject)]),  # pyright: ignore[reportArgumentType] - fields by name
        [
            *(step_of(one) for one in range(1, 4)),
            kept_audit(4, 0.5, 0.4, 0.6, step=3, num_items=40),
            *(step_of(one) for one in (4, 5)),
            kept_audit(7, 0.05, 0.02, 0.1, step=5, num_items=200),
            kept_audit(8, 0.9, 0.2, 1.0, step=5, num_items=4),
        ],
    )
    found = judge_run(run, step)[0].verdict
    assert (found.outcome, found.measured.value) == (outcome or "not enough evidence", value)
    if value is not None:
        assert query(run, found.measured.source).rows[0][0] == value


def test_a_run_without_gates_has_no_verdicts(tmp_path: Path):
    assert judge_run(write_run(tmp_path / "run", gated_manifest([]), [step_of(1)])) == ()


def test_a_gate_of_another_version_is_refused_with_a_sentence(tmp_path: Path):
    run = write_run(tmp_path / "run", gated_manifest([{**gate(metric="entropy/full"), "new": 1}]), [step_of(1)])
    with pytest.raises(EvidenceError, match="cannot read"):
        judge_run(run)


def test_a_name_with_quotes_asks_nothing_else(tmp_path: Path):
    wanted = {"quantile": "0.9' OR 1=1 --"}
    run = write_run(
        tmp_path / "run",
        gated_manifest([gate(metric="len/response", labels=wanted)], stages=RL_ONLY),
        [step_of(1, metric("len/response", 3.0, step=1, quantile="0.9"))],
    )
    assert judge_run(run)[0].verdict.outcome == "not enough evidence"


def test_verdicts_are_kept_with_what_they_were_about(tmp_path: Path):
    run = write_run(
        tmp_path / "run",
        gated_manifest([gate(metric="entropy/full", over="mean", window=2)]),
        series("entropy/full", dict(ENTROPY), model="policy"),
    )
    judged = judge_run(run)
    with RunFolder.open(run, "write") as folder:
        record_gates(folder.path, records_of(judged, "run", START))
    (kept,) = read_gates(run)
    assert kept.verdict == judged[0].verdict
    assert (kept.step, kept.purpose, kept.what) == (6, "run", "mean of the last 2 steps of entropy/full")


def test_a_verdict_that_was_edited_is_found(tmp_path: Path):
    run = write_run(
        tmp_path / "run",
        gated_manifest([gate(metric="entropy/full", limit=0.5)]),
        series("entropy/full", dict(ENTROPY), model="policy"),
    )
    with RunFolder.open(run, "write") as folder:
        record_gates(folder.path, records_of(judge_run(run), "run", START))
    assert check_gates(run) == ()
    text = (run / "gates.json").read_text(encoding="utf-8")
    (run / "gates.json").write_text(text.replace('"failed"', '"passed"'), encoding="utf-8")
    (finding,) = check_gates(run)
    assert (finding.text.partition(":")[0], finding.expected.partition(":")[0]) == ("passed", "failed")
    (run / "gates.json").write_text(text.replace('"gate": "g"', '"gate": "another"'), encoding="utf-8")
    assert "without such a gate" in check_gates(run)[0].text


def test_a_verdict_that_was_deleted_is_found(tmp_path: Path):
    gates = [gate("kept", metric="entropy/full"), gate("gone", metric="entropy/full", limit=0.1)]
    run = write_run(tmp_path / "run", gated_manifest(gates), series("entropy/full", dict(ENTROPY), model="policy"))
    with RunFolder.open(run, "write") as folder:
        record_gates(folder.path, records_of(judge_run(run), "run", START))
    assert check_gates(run) == ()
    document = json.loads((run / "gates.json").read_text(encoding="utf-8"))
    document["gates"] = [one for one in document["gates"] if one["verdict"]["gate"] == "kept"]
    (run / "gates.json").write_text(json.dumps(document), encoding="utf-8")
    (finding,) = check_gates(run)
    assert "gate gone" in finding.place and "missing" in finding.text


@pytest.mark.parametrize(
    "subject",
    [{"metric": "policy/kl_ref"}, {"kind": "audit", "verifier": "second"}, {"kind": "kept_audit"}],
    ids=["metric", "audit", "kept_audit"],
)
def test_a_verdict_that_does_not_follow_from_its_own_number_is_found(tmp_path: Path, subject: dict[str, Any]):
    made = gated_manifest([gate(**subject)])
    run = write_run(tmp_path / "run", made, series("entropy/full", dict(ENTROPY), model="policy"))
    with RunFolder.open(run, "write") as folder:
        record_gates(folder.path, records_of(judge_run(run), "run", START))
    assert check_gates(run) == ()
    text = (run / "gates.json").read_text(encoding="utf-8")
    (run / "gates.json").write_text(text.replace('"not enough evidence"', '"passed"'), encoding="utf-8")
    (finding,) = check_gates(run)
    assert (finding.text.partition(":")[0], finding.expected.partition(":")[0]) == ("passed", "not enough evidence")


def test_judging_a_run_loads_no_torch():
    code = "import sys, rollwright.evaluation.gates_of_runs; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
