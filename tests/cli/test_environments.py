"""`env` on the command line, and a world trained by its name."""

import json
import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console

from rollwright.cli.environments import show_worlds
from rollwright.cli.main import run_command
from rollwright.recipes.config.world import WorldEnvironmentConfig
from rollwright.recipes.resolve import resolve
from rollwright.recipes.worlds import WORLDS
from rollwright.recipes.worlds.table import ADAPTED, describe_world


def lines_of(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_env_list_names_each_world_and_each_adapter_with_what_it_is(capsys):
    assert run_command(["env", "list", "--json"]) == 0
    found = lines_of(capsys.readouterr().out)
    assert [line["name"] for line in found if line["kind"] == "world"] == list(WORLDS)
    assert [line["name"] for line in found if line["kind"] == "adapter"] == list(ADAPTED)
    assert all(line["what"] for line in found)
    reset_step = next(line for line in found if line["name"] == "reset_step")
    assert reset_step["needs"] == ["package", "entry", "rows"]
    assert (reset_step["takes"]["max_turns"], reset_step["takes"]["reference"]) == (50, "")


def test_env_list_shows_whole_descriptions_and_the_arguments_of_adapters_in_a_narrow_terminal():
    stream = StringIO()
    show_worlds(Console(file=stream, force_terminal=True, width=60, color_system=None))
    shown = stream.getvalue()
    assert max(map(len, shown.splitlines())) <= 60
    words = " ".join(shown.split())
    for name in (*WORLDS, *ADAPTED):
        assert " ".join(describe_world(name).split()) in words
    assert words.count("Needs url, rows; takes") == 1
    assert "…" not in shown


def test_env_list_gives_a_pipe_one_line_for_each_world(capsys):
    assert run_command(["env", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in (*WORLDS, *ADAPTED):
        assert sum(line.split()[:1] == [name] and describe_world(name) in line for line in lines) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check"], "give one MODULE:NAME, or --all"),
        (["check", "arithmetic", "--all"], "give one MODULE:NAME, or --all"),
        (["check", "--all", "--arg", "a=1"], "--arg goes with one MODULE:NAME"),
        (["check", "arithmetic", "--arg", "max_calls"], "write --arg key=value"),
        (["check", "arithmetic", "--arg", "a=1", "--arg", "a=2"], "gives a twice"),
        (["check", "arithmetics"], "arithmetics"),
        (["check", "no_such_module:load"], "cannot be loaded"),
        (["new", "Shop-1"], "no name of a Python module"),
        (["new", "__init__"], "no name of a Python module"),
        (["new", "a" * 101], "no name of a Python module"),
        (["new", "json"], "would hide another module"),
        (["new", "numpy"], "would hide another module"),
        (["new", "conftest"], "would hide another module"),
        (["new", "class"], "no name of a Python module"),
    ],
)
def test_what_is_asked_wrongly_ends_in_one_sentence(capsys, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    assert run_command(["env", *arguments]) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert shown.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_new_environment_is_written_once_and_keeps_the_contract(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_command(["env", "new", "shelf", "--json"]) == 0
    (line,) = lines_of(capsys.readouterr().out)
    assert line["files"] == ["shelf.py", "test_shelf.py", "shelf.toml", "README-shelf.md"]
    assert run_command(["env", "new", "shelf"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert run_command(["env", "check", "shelf:load", "--tasks", "1", "--arg", "max_calls=7", "--json"]) == 0
    *checks, last = lines_of(capsys.readouterr().out)
    assert last == {"worlds": 1, "failed": 0}
    assert {check["status"] for check in checks} == {"passed"}
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not contract", "test_shelf.py"]
    done = subprocess.run(tests, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    by_file, by_name = resolve("shelf.toml").recipe, resolve("shelf:load").recipe
    assert by_file.environment == by_name.environment
    assert (by_file.run.name, by_name.run.name) == ("shelf", "shelf")


def test_a_failed_check_is_exit_code_1_with_its_sentence(capsys, tmp_path, monkeypatch):
    (tmp_path / "poor.py").write_text("def load():\n    raise RuntimeError('no stock')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run_command(["env", "check", "poor:load"]) == 1
    shown = capsys.readouterr().out
    assert "RuntimeError: no stock" in shown
    assert "poor:load: 0 passed, 1 failed" in shown


def test_a_world_is_trained_by_the_preset_for_worlds():
    resolved = resolve("my_package.my_world:load", ["run.steps=3"])
    preset = resolve("tiny-agent")
    assert isinstance(resolved.recipe.environment, WorldEnvironmentConfig)
    assert resolved.recipe.environment.name == "my_package.my_world:load"
    assert (resolved.recipe.run.name, resolved.recipe.run.steps) == ("my_world", 3)
    assert resolved.origins["environment.name"] == "command line"
    assert resolved.recipe.model == preset.recipe.model


@pytest.mark.training
@pytest.mark.slow
def test_a_new_environment_trains_by_name_and_by_file(tmp_path):
    def command(*arguments):
        call = [sys.executable, "-m", "rollwright", *arguments]
        return subprocess.run(call, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert command("env", "new", "shelf").returncode == 0
    short = [
        f"--set={setting}"
        for setting in ("run.steps=2", "evaluation.tasks=4", "stages.warm_start.steps=25", "rollout.batch_size=16")
    ]
    for recipe in ("shelf:load", "shelf.toml"):
        done = command("train", recipe, *short)
        assert done.returncode == 0, done.stderr
