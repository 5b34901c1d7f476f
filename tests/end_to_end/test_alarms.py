"""Runs that really go wrong: entropy that collapses, a length that is paid, a verifier that accepts everything."""

from pathlib import Path

import pytest

from rollwright.evaluation.gates_of_runs import judge_run
from rollwright.evidence import RunFolder
from rollwright.evidence.gates import read_gates
from rollwright.recipes.replays import replay_run
from rollwright.recipes.resolve import Resolved
from tests.end_to_end.gated import STEPS, began, gated, values, went_on
from tests.end_to_end.small import TAUGHT, Listener, small

LENGTH = 'verifier.parts=[{kind="custom", path="tests.end_to_end.gate_parts:length"}]'
GENEROUS = (
    'verifier.parts=[{kind="custom", path="tests.end_to_end.gate_parts:generous"}, {kind="exact", weight=0.0}]',
    "run.steps=2",
    "evaluation.every=2",
)


def raised_by(run: Path, resolved: Resolved) -> tuple[str, int, float]:
    """The alarm that paused a run, its step and its number."""
    assert began(run, resolved) is not None
    (kept,) = [one for one in read_gates(run) if one.action == "pause"]
    assert kept.verdict.outcome == "failed"
    assert kept.step == RunFolder.open(run).commits[-1].step
    assert kept.verdict.measured.value is not None
    return kept.verdict.gate, kept.step, kept.verdict.measured.value


@pytest.mark.training
def test_a_learning_rate_that_is_far_too_large_collapses_the_entropy_and_pauses_the_run(tmp_path: Path):
    run = tmp_path / "run"
    resolved = gated(
        "learner.learning_rate=0.1",
        "learner.schedule=constant",
        "run.steps=16",
        "evaluation.every=16",
        "rollout.batch_size=32",
        alarms='{kind="entropy_collapse", first=2, in_a_row=2, action="pause"}',
    )
    name, step, number = raised_by(run, resolved)
    entropy = values(run, "entropy/full")
    assert name == "entropy collapse"
    assert step < 16
    assert number == pytest.approx(entropy[-1] / (sum(entropy[:2]) / 2))
    assert number < 0.27


@pytest.mark.training
def test_a_length_that_is_paid_grows_and_pauses_the_run(tmp_path: Path):
    run = tmp_path / "run"
    resolved = small(
        *TAUGHT,
        LENGTH,
        'alarms=[{kind="length", limit=1.5, first=2, in_a_row=2, action="pause"}]',
        "gates=[]",
        "environment.tool_share=0.0",
        "stages.warm_start.steps=60",
        "learner.learning_rate=1e-2",
        "learner.schedule=constant",
        "run.steps=16",
        "evaluation.every=16",
        "evaluation.tasks=4",
        "rollout.max_turn_tokens=60",
        "rollout.max_turns=1",
    )
    name, step, number = raised_by(run, resolved)
    assert name == "length"
    assert step > 60, "the warm start is no stage of alarms"
    assert number > 1.5


def test_a_verifier_that_accepts_everything_opens_a_gap_to_a_second_one(tmp_path: Path):
    run = tmp_path / "run"
    resolved = gated(
        *GENEROUS,
        alarms='{kind="hacking_gap", minus_labels={component="exact"}, limit=0.5, in_a_row=2, source="by hand", '
        'action="pause"}',
        gates='{name="agrees", kind="audit", verifier="exact", bound="at_most", limit=0.2, source="by hand"}',
    )
    assert raised_by(run, resolved) == ("hacking gap", 2, 1.0)
    (judged,) = judge_run(run)
    assert judged.verdict.outcome == "failed"
    assert judged.verdict.measured.value == 1.0


def test_two_graders_that_disagree_raise_their_alarm(tmp_path: Path):
    resolved = gated(
        *GENEROUS, alarms='{kind="verifier_disagreement", limit=0.5, in_a_row=1, source="by hand", action="pause"}'
    )
    assert raised_by(tmp_path / "run", resolved)[0] == "verifier disagreement"


@pytest.mark.slow
def test_a_replay_of_a_run_that_was_paused_goes_to_its_end(tmp_path: Path):
    run, again = tmp_path / "run", tmp_path / "again"
    pauses = '{kind="length", rule="threshold", limit=1.0, in_a_row=2, action="pause"}'
    assert began(run, gated("evaluation.every=4", alarms=pauses)) is not None
    assert went_on(run, "looked at") is None
    assert replay_run(run, again, Listener()).is_equal
    assert RunFolder.open(again).commits[-1].step == STEPS
    assert [one.action for one in read_gates(again) if one.purpose == "alarm"] == ["warn"]


@pytest.mark.slow
def test_an_alarm_that_hears_nothing_says_so_and_pauses_nothing(tmp_path: Path):
    """Without a reference there is no distance to one."""
    run = tmp_path / "run"
    resolved = gated(
        "run.steps=6",
        "evaluation.every=6",
        "evidence.reference_every=0",
        alarms='{kind="kl", metric="policy/kl_ref", limit=0.1, source="by hand", action="pause"}',
    )
    assert began(run, resolved) is None
    (kept,) = [one for one in read_gates(run) if one.purpose == "alarm"]
    assert (kept.verdict.outcome, kept.step, kept.action) == ("not enough evidence", 5, "none")
