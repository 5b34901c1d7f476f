"""What a person gets wrong: one sentence that says what to do, and nothing is started or lost."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rollwright.cli.main import run_command
from rollwright.evidence import RunFolder, content_hash
from rollwright.recipes.resolve import preset_names, recipe_toml
from tests.end_to_end.children import start_command
from tests.end_to_end.conftest import Finished
from tests.end_to_end.small import RECIPE, SMALL, arguments, small

Say = Callable[..., tuple[int, str]]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command that fails; gives its exit code and its one sentence."""

    def run(*words: str | Path) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command([*map(str, words), "--json"])
        last = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert last["exit_code"] == code
        assert "\n" not in last["error"].strip()
        return code, last["error"]

    return run


def test_a_wrong_key_is_refused_with_the_nearest_right_one(say: Say, tmp_path: Path) -> None:
    code, sentence = say("train", RECIPE, "--run-dir", tmp_path / "run", "--set", "rollout.groupsize=4")
    assert code == 2
    assert "rollout.groupsize" in sentence
    assert "group_size" in sentence.replace("groupsize", "")
    assert not (tmp_path / "run").exists()


def test_a_missing_recipe_is_refused_with_what_there_is(say: Say) -> None:
    assert say("train", "nothing/here.toml") == (
        2,
        f"no file nothing/here.toml; give a .toml file that exists, or one of {', '.join(preset_names())}.",
    )
    code, sentence = say("train", "arithmetic-tol")
    assert code == 2
    assert f"Did you mean {RECIPE}?" in sentence


def test_missing_tasks_are_refused_before_anything_is_made(say: Say, tmp_path: Path) -> None:
    code, sentence = say(
        "train", RECIPE, "--run-dir", tmp_path / "run", "--set", 'tasks={kind="jsonl", train="no/rows.jsonl"}'
    )
    assert code in (1, 2)
    assert "no/rows.jsonl" in sentence
    assert not (tmp_path / "run").exists()


def test_a_missing_model_folder_is_refused_before_anything_is_made(say: Say, tmp_path: Path) -> None:
    settings = ("--set", f'model={{kind="local", path="{tmp_path}/no-model"}}')
    code, sentence = say("train", RECIPE, "--run-dir", tmp_path / "run", *settings)
    assert code == 2
    assert f"there is no model folder {tmp_path}/no-model" in sentence
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_no_model_is_refused(say: Say, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    settings = ("--set", f'model={{kind="local", path="{tmp_path}/empty"}}')
    code, sentence = say("train", RECIPE, "--run-dir", tmp_path / "run", *settings)
    assert code in (1, 2)
    assert str(tmp_path / "empty") in sentence
    assert not (tmp_path / "run").exists()


def test_a_batch_that_no_group_size_divides_is_refused_with_those_that_do(say: Say, tmp_path: Path) -> None:
    settings = ("--set", "rollout.batch_size=16", "--set", "rollout.group_size=5")
    code, sentence = say("train", RECIPE, "--run-dir", tmp_path / "run", *settings)
    assert code == 2
    assert "1, 2, 4, 8, 16" in sentence
    assert not (tmp_path / "run").exists()


def test_a_template_that_cannot_be_continued_is_refused(finished: Finished, say: Say, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(finished.path / "checkpoints" / "step-000006", model)
    (model / "chat_template.jinja").write_text(
        "{% if messages | length > 1 %}{{ raise_exception('one message only') }}{% endif %}{{ messages[0].content }}"
    )
    code, sentence = say(
        "train", RECIPE, "--run-dir", tmp_path / "run", "--set", f'model={{kind="local", path="{model}"}}'
    )
    assert code == 1
    assert "one message only" in sentence
    assert not (tmp_path / "run").exists()


def test_a_template_that_rewrites_history_is_reported(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    shutil.copytree(finished.path / "checkpoints" / "step-000006", model)
    template = (model / "chat_template.jinja").read_text()
    (model / "chat_template.jinja").write_text("{% if messages | length > 2 %}A long talk.\n{% endif %}" + template)
    kept = [s for s in SMALL if not s.startswith(("model.", "stages."))]
    settings = [f'model={{kind="local", path="{model}"}}', 'stages=[{kind="rl", name="rl"}]', *kept, "run.steps=1"]
    words = ["train", RECIPE, "--json", "--run-dir", str(tmp_path / "run"), "--rollouts-only"]
    code = run_command([*words, *(word for setting in settings for word in ("--set", setting))])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0, lines[-1]
    warnings = [line["text"] for line in lines if line.get("event") == "warning"]
    assert any("rewrites history" in text and "such turns become branches" in text for text in warnings)


def test_a_run_folder_of_another_schema_is_refused_by_every_command(
    finished: Finished, say: Say, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    shutil.copytree(finished.path, old)
    manifest = json.loads((old / "manifest.json").read_text())
    manifest["schema_version"] = 999
    (old / "manifest.json").write_text(json.dumps(manifest))
    for command in (("resume", old), ("eval", old), ("query", old, "SELECT 1"), ("train", "--from", old)):
        code, sentence = say(*command)
        assert code == 1
        assert "is of schema 999" in sentence


def test_resume_of_what_is_no_run_is_refused(say: Say, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing"):
        code, sentence = say("resume", folder)
        assert code == 1
        assert sentence.startswith(f"{folder} is not a run folder: it has no manifest.json.")


def test_training_into_a_folder_that_holds_a_run_is_refused(finished: Finished, say: Say) -> None:
    code, sentence = say("train", RECIPE, "--run-dir", finished.path, *arguments())
    assert code == 2
    assert f"`rollwright resume {finished.path}` goes on with it" in sentence
    assert content_hash(finished.path) == finished.result.content_hash


def test_training_into_a_folder_with_other_things_is_refused(say: Say, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    code, sentence = say("train", RECIPE, "--run-dir", tmp_path, *arguments())
    assert code in (1, 2)
    assert "thesis.txt" in sentence
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_processes_cannot_write_one_run(finished: Finished, tmp_path: Path) -> None:
    with RunFolder.open(finished.path, "write"):
        ended = start_command(["resume", finished.path, "--json"], tmp_path).ended()
        asked = start_command(["query", finished.path, "SELECT count(*) AS n FROM receipts", "--json"], tmp_path)
        assert asked.ended().last["n"] > 0
    assert ended.code == 1
    assert "two cannot write one run" in ended.last["error"]
    assert content_hash(finished.path) == finished.result.content_hash


def test_a_warm_start_shorter_than_its_warm_up_is_refused_before_anything_is_made(say: Say, tmp_path: Path) -> None:
    code, sentence = say(
        "train", RECIPE, "--run-dir", tmp_path / "run", *arguments("stages.warm_start.warmup_updates=10")
    )
    assert code == 2
    assert "warmup_updates" in sentence
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_that_is_not_there_is_refused_with_those_that_are(finished: Finished, say: Say) -> None:
    code, sentence = say("eval", finished.path, "--step", "7000")
    assert code == 2
    assert "no checkpoint of step 7000" in sentence
    assert "it has 0, 3, " in sentence


def test_a_recipe_file_names_the_line_of_what_is_wrong(say: Say, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    lines = recipe_toml(small().recipe).splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("group_size"))
    lines[place] = 'group_size = "four"'
    path.write_text("\n".join(lines))
    code, sentence = say("train", path, "--run-dir", tmp_path / "run")
    assert code == 2
    assert f"line {place + 1}" in sentence
    assert "group_size" in sentence


@pytest.mark.parametrize("temperature", ["inf", "1e9"])
def test_an_evaluation_at_no_temperature_is_refused(say: Say, finished: Finished, temperature: str) -> None:
    code, sentence = say("eval", finished.path, "--temperature", temperature)
    assert code == 2
    assert "evaluation.temperature takes a number of at least 0 and at most 100" in sentence
