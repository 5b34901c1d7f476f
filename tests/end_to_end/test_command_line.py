"""The command as a person installs it: one real process for a whole run, and what can be asked of it."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.children import start_command
from tests.end_to_end.small import RECIPE, ROOT, Ended, arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    path: Path
    ended: Ended


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """`rollwright train … --json`, by its entry point."""
    path = tmp_path_factory.mktemp("command_line") / "run"
    ended = rollwright("train", RECIPE, "--json", "--run-dir", str(path), "--seed", "3", *arguments())
    assert ended.code == 0, ended.err
    return Trained(path=path, ended=ended)


def rollwright(*words: str) -> Ended:
    """Run the installed command to its end."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "rollwright"), *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "160"},
        timeout=120,
        check=False,
    )
    return Ended(code=done.returncode, out=done.stdout, err=done.stderr)


def test_the_last_line_of_train_says_what_was_learned(trained: Trained) -> None:
    last = trained.ended.last
    assert {"run", "steps", "seconds", "before", "after"} <= set(last)
    assert last["run"] == str(trained.path)
    assert last["steps"] == 3 + 2
    assert last["seconds"] > 0
    for point in (last["before"], last["after"]):
        assert {"success", "low", "high", "tasks"} <= set(point)
        assert 0 <= point["low"] <= point["success"] <= point["high"] <= 1
        assert point["tasks"] == 8
    assert trained.ended.err == ""


def test_train_says_each_step_while_it_runs(trained: Trained) -> None:
    lines = trained.ended.lines
    assert [line["step"] for line in lines if line.get("event") == "step"] == [1, 2, 3, 4, 5]
    assert [line["step"] for line in lines if line.get("event") == "evaluation"] == [0, 3, 5]
    assert [line["step"] for line in lines if line.get("event") == "evaluating"] == [0, 3, 5]
    assert [line["stage"] for line in lines if line.get("event") == "stage"] == ["warm_start", "rl"]


def test_query_answers_from_the_run(trained: Trained, tmp_path: Path) -> None:
    sql = "SELECT step, count(*) AS receipts FROM receipts GROUP BY step ORDER BY step"
    ended = start_command(["query", trained.path, sql, "--json"], tmp_path).ended()
    assert [line["step"] for line in ended.lines] == [1, 2, 3, 4, 5]
    assert all(line["receipts"] >= 8 for line in ended.lines)


def test_resume_of_a_finished_run_gives_its_result_again(trained: Trained, tmp_path: Path) -> None:
    ended = start_command(["resume", trained.path, "--json"], tmp_path).ended()
    assert ended.code == 0, ended.err
    for key in ("run", "steps", "before", "after", "content_hash"):
        assert ended.last[key] == trained.ended.last[key]


def test_eval_measures_a_checkpoint_and_keeps_the_run_as_it_was(trained: Trained, tmp_path: Path) -> None:
    ended = start_command(["eval", trained.path, "--json"], tmp_path).ended()
    assert ended.code == 0, ended.err
    (success,) = (line for line in ended.lines if line.get("metric") == "success" and not line["labels"])
    after = trained.ended.last["after"]
    # The same protocol, weights and seeds: the same episodes, so the same number.
    assert (success["value"], success["low"], success["high"]) == (after["success"], after["low"], after["high"])
    resumed = start_command(["resume", trained.path, "--json"], tmp_path).ended()
    assert resumed.last["content_hash"] == trained.ended.last["content_hash"]


def test_another_protocol_has_a_digest_of_its_own(trained: Trained, tmp_path: Path) -> None:
    ended = start_command(
        ["eval", trained.path, "--step", "3", "--tasks", "4", "--samples", "2", "--temperature", "0", "--json"],
        tmp_path,
    ).ended()
    assert ended.code == 0, ended.err
    (success,) = (line for line in ended.lines if line.get("metric") == "success" and not line["labels"])
    assert (success["tasks"], success["trajectories"]) == (4, 8)
    sql = "SELECT count(DISTINCT protocol_sha256) AS n FROM evaluations"
    assert start_command(["query", trained.path, sql, "--json"], tmp_path).ended().last["n"] == 2


def test_recipes_are_listed_and_shown(tmp_path: Path) -> None:
    names = [line["name"] for line in start_command(["recipe", "list", "--json"], tmp_path).ended().lines]
    assert {RECIPE, "smollm2-arithmetic"} <= set(names)
    shown = start_command(["recipe", "show", RECIPE, "--json"], tmp_path).ended().lines
    assert {"run.steps", "rollout.group_size", "objective.denominator"} <= {line["key"] for line in shown}


@pytest.mark.parametrize(
    "words", [[], ["train"], ["resume"], ["eval"], ["query"], ["recipe"], ["recipe", "list"], ["recipe", "show"]]
)
def test_help_teaches(tmp_path: Path, words: list[str]) -> None:
    ended = start_command([*words, "--help"] if words else ["--help"], tmp_path).ended()
    assert ended.code == 0
    assert "Usage" in ended.out
    assert "rollwright" in ended.out
    assert len(ended.out.splitlines()) > 8


def test_a_person_sees_lines_and_a_table_at_the_end(tmp_path: Path) -> None:
    ended = start_command(["train", RECIPE, "--run-dir", tmp_path / "run", *arguments("run.steps=1")], tmp_path).ended()
    assert ended.code == 0, ended.err
    text = ended.out
    assert "warm_start 3/3" in text
    assert "rl 1/1" in text
    assert "what was learned" in text
    assert "before" in text
    assert "after" in text
    assert "next: rollwright why" in text
