"""A run folder that was changed behind the run's back: refused in one sentence, and nothing of it is thrown away."""

import shutil
from pathlib import Path

from rollwright.evidence import RunFolder
from tests.end_to_end.conftest import Finished
from tests.end_to_end.small import RECIPE, arguments
from tests.end_to_end.test_bad_input import Say, say

__all__ = ["say"]


def copied(finished: Finished, to: Path) -> Path:
    shutil.copytree(finished.path, to)
    return to


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))


def test_resume_and_eval_refuse_another_environment(say: Say, finished: Finished, tmp_path: Path) -> None:
    run = copied(finished, tmp_path / "run")
    recipe = (run / "recipe.toml").read_text(encoding="utf-8")
    assert "max_calls = 3" in recipe
    (run / "recipe.toml").write_text(recipe.replace("max_calls = 3", "max_calls = 2"), encoding="utf-8")
    commits = len(RunFolder.open(run).commits)
    for words in (("resume", run), ("eval", run)):
        code, sentence = say(*words)
        way_out = "--new-segment" if words[0] == "resume" else "another experiment"
        assert code == 2 and way_out in sentence and "environment.revision" in sentence
    assert len(RunFolder.open(run).commits) == commits


def test_a_checkpoint_with_altered_bytes_is_not_evaluated_and_not_learned_from(
    say: Say, finished: Finished, tmp_path: Path
) -> None:
    run = copied(finished, tmp_path / "run")
    damage(run / "checkpoints" / "step-000000" / "model.safetensors")
    code, sentence = say("eval", run, "--step", "0")
    assert code == 2 and "step-000000" in sentence and "altered" in sentence
    code, sentence = say("train", "--from", run, "--run-dir", tmp_path / "again")
    assert code == 2 and "altered" in sentence


def test_finished_steps_without_a_checkpoint_are_not_done_again(say: Say, finished: Finished, tmp_path: Path) -> None:
    run = copied(finished, tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").mkdir()
    commits = len(RunFolder.open(run).commits)
    code, sentence = say("resume", run)
    assert code == 2 and "no checkpoint that counts" in sentence
    assert len(RunFolder.open(run).commits) == commits


def test_a_run_that_only_recorded_is_learned_from_and_not_resumed(say: Say, tmp_path: Path) -> None:
    from rollwright.cli.main import run_command

    run = tmp_path / "run"
    words = ["train", RECIPE, *arguments(), "--run-dir", str(run), "--rollouts-only", "--json"]
    assert run_command(words) == 0
    commits = len(RunFolder.open(run).commits)
    code, sentence = say("resume", run)
    assert code == 2 and "--from" in sentence
    assert len(RunFolder.open(run).commits) == commits


def test_a_run_that_lost_its_source_does_not_sample_for_itself(say: Say, finished: Finished, tmp_path: Path) -> None:
    from rollwright.cli.main import run_command

    run = tmp_path / "again"
    assert run_command(["train", "--from", str(finished.path), "--run-dir", str(run), "--json"]) == 0
    (run / "events.jsonl").unlink()
    code, sentence = say("resume", run)
    assert code == 2 and "before it noted where" in sentence
