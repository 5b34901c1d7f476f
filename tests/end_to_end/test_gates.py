"""Whole runs whose alarms pause them, and checkpoints that leave only through their gates."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from rollwright.cli.failures import FAILED
from rollwright.cli.main import run_command
from rollwright.evaluation.gates_of_runs import judge_run
from rollwright.evidence import RunFolder, content_hash, stored_evaluations
from rollwright.evidence.gates import GateRecord, read_gates
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.promoted_folder import PromotedCheckpoint, write_promoted
from rollwright.recipes.promotion import PROMOTED, REFUSED, PromotionOrder, promote
from rollwright.recipes.runs import resume_run
from rollwright.runtime.alarms import ACKNOWLEDGED, RAISED
from tests.end_to_end.gated import STEPS, began, gated, values, went_on
from tests.end_to_end.small import Listener
from tests.evidence.runs import START

PAUSED_AT = 3
SHORT = '{kind="length", rule="threshold", limit=1.0, in_a_row=%d, source="by hand", action="%s"}'
"""Every response is longer than a token, so this rises after so many steps."""
PASSES = '{name="exploring", kind="metric", metric="entropy/full", bound="at_least", limit=0.01, source="by hand"}'
HELD_OUT = '{name="held out", kind="evaluation", bound="at_least", limit=%s, by="value", source="by hand"}'


@pytest.fixture(scope="module")
def never_paused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gates") / "run"
    assert began(path, gated(gates=f"{PASSES}, {HELD_OUT % 0.0}", alarms=SHORT % (PAUSED_AT, "warn"))) is None
    return path


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gates") / "run"
    error = began(path, gated(gates=f"{PASSES}, {HELD_OUT % 0.0}", alarms=SHORT % (PAUSED_AT, "pause")))
    assert error is not None
    return path


def copy_of(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to))


def weights(run: Path, step: int) -> str:
    return hashlib.sha256((run / f"checkpoints/step-{step:06d}/model.safetensors").read_bytes()).hexdigest()


def alarms_of(run: Path) -> list[GateRecord]:
    return [one for one in read_gates(run) if one.purpose == "alarm"]


def test_a_paused_run_is_not_gone_on_with_until_someone_says_why(paused: Path, tmp_path: Path):
    run = copy_of(paused, tmp_path / "run")
    error = went_on(run)
    assert error is not None
    assert "--acknowledge" in str(error)
    with pytest.raises(RecipeError, match="takes the reason"):
        went_on(run, " ")
    assert not [one for one in RunFolder.open(run).events() if one.kind == ACKNOWLEDGED]
    assert RunFolder.open(run).commits[-1].step == PAUSED_AT


def test_a_run_that_was_paused_and_acknowledged_is_the_run_that_never_was(
    paused: Path, never_paused: Path, tmp_path: Path
):
    run = copy_of(paused, tmp_path / "run")
    assert went_on(run, "looked at by hand") is None
    assert content_hash(run) == content_hash(never_paused)
    assert weights(run, STEPS) == weights(never_paused, STEPS)
    (event,) = [one for one in RunFolder.open(run).events() if one.kind == ACKNOWLEDGED]
    assert (event.step, event.fields["why"]) == (PAUSED_AT, "looked at by hand")
    with pytest.raises(RecipeError, match="no alarm"):
        resume_run(run, Listener(), acknowledgment="again")


@pytest.mark.parametrize("lost", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_that_lost_its_last_steps_raises_the_same_alarm_at_the_same_step(paused: Path, tmp_path: Path, lost: int):
    """What a kill leaves: a checkpoint of an earlier step, and perhaps commits behind it."""
    run = copy_of(paused, tmp_path / "run")
    for step in range(PAUSED_AT - lost + 1, PAUSED_AT + 1):
        shutil.rmtree(run / f"checkpoints/step-{step:06d}")
    assert went_on(run) is not None
    (before,), (after,) = alarms_of(paused), alarms_of(run)
    assert (after.step, after.first_step, after.verdict) == (before.step, before.first_step, before.verdict)
    raised = [one.step for one in RunFolder.open(run).events() if one.kind == RAISED]
    assert raised == [PAUSED_AT, PAUSED_AT]
    assert went_on(run) is not None


@pytest.mark.slow
def test_an_acknowledged_alarm_does_not_pause_the_same_step_done_again(paused: Path, tmp_path: Path):
    run = copy_of(paused, tmp_path / "run")
    assert went_on(run, "looked at") is None
    shutil.rmtree(run / f"checkpoints/step-{STEPS:06d}")
    shutil.rmtree(run / f"checkpoints/step-{PAUSED_AT:06d}")
    assert went_on(run) is None
    assert RunFolder.open(run).commits[-1].step == STEPS


@pytest.mark.slow
def test_an_alarm_pauses_a_run_with_a_lag_and_it_goes_on(tmp_path: Path):
    run = tmp_path / "run"
    assert began(run, gated("runtime.max_lag=1", alarms=SHORT % (2, "pause"))) is not None
    assert RunFolder.open(run).commits[-1].step == 2
    assert went_on(run, "looked at") is None
    assert RunFolder.open(run).commits[-1].step == STEPS
    assert [one.step for one in alarms_of(run)] == [2]


def test_gates_are_judged_at_every_evaluation_and_anyone_comes_to_the_same_verdict(never_paused: Path):
    kept = [one for one in read_gates(never_paused) if one.purpose == "run"]
    assert sorted({one.step for one in kept}) == [STEPS // 2, STEPS]
    for step in (STEPS // 2, STEPS):
        again = [one.verdict for one in judge_run(never_paused, step)]
        assert [one.verdict for one in kept if one.step == step] == again
    assert kept[-2].verdict.measured.value == values(never_paused, "entropy/full")[-1]


def test_a_checkpoint_that_passes_leaves_with_card_and_evidence(never_paused: Path, tmp_path: Path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run, out = copy_of(never_paused, tmp_path / "run"), tmp_path / "models" / "out"
    assert promote(PromotionOrder(run=run, step=None, destination=out), Listener()).is_written
    proof = json.loads((out / "evidence.json").read_text(encoding="utf-8"))
    assert [one["outcome"] for one in proof["gates"]] == ["passed", "passed"]
    for name, digest in proof["model"]["files"].items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    assert proof["model"]["files"]["model.safetensors"] == weights(run, STEPS)
    assert not (out / "training_state").exists()
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "The experiment reports" in card
    assert RunFolder.open(run).manifest.run.run_id in card
    model, tokenizer = AutoModelForCausalLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    assert model.num_parameters() == proof["model"]["num_parameters"]
    assert tokenizer("1+1").input_ids
    (event,) = [one for one in RunFolder.open(run).events() if one.kind == PROMOTED]
    assert event.step == STEPS


def test_a_checkpoint_that_does_not_pass_stays_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture):
    run, out = tmp_path / "run", tmp_path / "out"
    assert began(run, gated(gates=f"{PASSES}, {HELD_OUT % 1.0}")) is None
    capsys.readouterr()
    assert run_command(["eval", str(run), "--promote", str(out), "--json"]) == FAILED
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["outcome"] for one in lines if "outcome" in one] == ["passed", "failed"]
    assert lines[-1] == {"step": STEPS, "promoted": False, "destination": None}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    (event,) = [one for one in RunFolder.open(run).events() if one.kind == REFUSED]
    assert event.fields["gate.held out"] == "failed"
    assert [one.verdict.outcome for one in read_gates(run) if one.purpose == "promotion"] == ["passed", "failed"]


def test_a_checkpoint_that_was_not_evaluated_is_evaluated_first(paused: Path, tmp_path: Path):
    run, out = copy_of(paused, tmp_path / "run"), tmp_path / "out"
    assert went_on(run, "looked at") is None
    heard = Listener()
    assert promote(PromotionOrder(run=run, step=PAUSED_AT, destination=out), heard).is_written
    assert heard.evaluating_now
    proof = json.loads((out / "evidence.json").read_text(encoding="utf-8"))
    assert (proof["run"]["step"], proof["protocol"]["evaluation"].partition("#")[0]) == (PAUSED_AT, "held-out@3")
    assert [one["kind"] for one in proof["alarms"]] == [RAISED, ACKNOWLEDGED]


def test_a_checkpoint_whose_alarm_nobody_looked_at_stays(paused: Path, tmp_path: Path):
    assert run_command(["eval", str(paused), "--promote", str(tmp_path / "out")]) == 3
    assert not (tmp_path / "out").exists()


def test_a_run_without_gates_is_told_how_to_declare_some(tmp_path: Path):
    run = tmp_path / "run"
    assert began(run, gated("run.steps=1", "gates=[]")) is None
    with pytest.raises(RecipeError, match=r"\[\[gates\]\]"):
        promote(PromotionOrder(run=run, step=None, destination=tmp_path / "out"), Listener())


def test_a_destination_that_is_taken_is_left_alone(never_paused: Path, tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(RecipeError, match="is taken"):
        promote(PromotionOrder(run=never_paused, step=None, destination=tmp_path / "out"), Listener())
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


class KilledError(Exception):
    """Stands for whatever ends a promotion before the folder has its name."""


def test_a_promotion_that_fails_leaves_no_half_folder_and_one_that_was_killed_is_written_over(
    never_paused: Path, tmp_path: Path
):
    with RunFolder.open(never_paused) as folder:
        checkpoint = folder.newest_checkpoint().chosen
        assert checkpoint is not None
        promoted = PromotedCheckpoint(
            folder=folder,
            checkpoint=checkpoint,
            evaluated=stored_evaluations(folder)[-1],
            judged=judge_run(never_paused),
            promoted_at=START,
        )
        out = tmp_path / "models" / "out"

        def fails() -> None:
            assert not out.exists()
            raise KilledError

        with pytest.raises(KilledError):
            write_promoted(promoted, out, before_naming=fails)
        assert list((tmp_path / "models").iterdir()) == []
        (tmp_path / "models" / ".out.partial").mkdir()
        (tmp_path / "models" / ".out.partial" / "half.safetensors").write_bytes(b"half")
        write_promoted(promoted, out, before_naming=lambda: None)
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["out"]
    assert not (out / "half.safetensors").exists()


def test_promotion_takes_no_other_protocol(never_paused: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    words = ["eval", str(never_paused), "--promote", str(tmp_path / "out"), "--temperature", "0"]
    assert run_command(words) == 2
    assert "--temperature" in capsys.readouterr().err
