"""`compare` as a person and a script meet it: what is printed, in which order, with which exit code."""

import json
import shutil
import subprocess
import sys

import pytest

from rollwright.cli.main import run_command
from rollwright.evidence import ConfigValue
from tests.evaluation.evaluated_runs import evaluated_run, under


@pytest.fixture
def two(tmp_path):
    frozen = under(4)
    a = evaluated_run(tmp_path / "a", (2, frozen, {t: [0.0] for t in range(4)}))
    b = evaluated_run(tmp_path / "b", (2, frozen, {t: [float(t > 0)] for t in range(4)}), seeds={"run": 9})
    return str(a), str(b)


def test_what_differs_is_said_before_any_number_and_equal_sections_in_one_line(two, capsys):
    assert run_command(["compare", *two]) == 0
    said = capsys.readouterr().out
    order = ["what differs between the runs", "seeds.run", "equal: code", "held-out (", "success", "paired differences"]
    places = [said.index(part) for part in order]
    assert places == sorted(places)
    assert "+0.7500" in said and "0.2500 (0 : 3)" in said
    assert "equal budgets: updates, episodes, tokens, calls, clock" in said


def test_a_machine_reads_one_object_a_line_with_every_number(two, capsys):
    assert run_command(["compare", *two, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["arms", "manifest", "contrast"]
    contrast = lines[-1]
    success = contrast["differences"][0]
    assert (success["metric"], success["mean"], success["mcnemar_p"]) == ("success", 0.75, 0.25)
    assert [one["step"] for one in contrast["checkpoints"]] == [2, 2]
    assert all(line["is_matched"] for line in contrast["budgets"])


def test_numbers_under_different_digests_are_refused_with_what_differs(tmp_path, capsys):
    values = {t: [1.0] for t in range(3)}
    a = evaluated_run(tmp_path / "a", (2, under(3), values))
    b = evaluated_run(tmp_path / "b", (2, under(3, max_turns=9), values))
    assert run_command(["compare", str(a), str(b)]) == 1
    said = capsys.readouterr().out
    assert "what does not compare" in said and "max_turns" in said
    assert "paired differences" not in said


def test_a_table_that_one_run_lacks_altogether_is_one_line(tmp_path, capsys):
    keys = [f"gates.{n}.{key}" for n in range(4) for key in ("name", "limit", "bound")] + ["objective.clip"]
    values = tuple(ConfigValue(key=key, value="1", origin="file") for key in keys)
    made = {t: [1.0] for t in range(2)}
    a = evaluated_run(tmp_path / "a", (2, under(2), made), configuration=values)
    b = evaluated_run(tmp_path / "b", (2, under(2), made), configuration=(values[-1], *values[:3]))
    c = evaluated_run(tmp_path / "c", (2, under(2), made), configuration=(values[-1],))
    assert run_command(["compare", str(a), str(c)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "configuration.gates" in line]
    assert "4 of 12 keys" in line and line.endswith("absent")
    assert run_command(["compare", str(a), str(b)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "configuration.gates" in line]
    assert "3 of 9 keys" in line


def test_why_numbers_do_not_compare_is_said_whole_to_a_pipe(tmp_path, capsys):
    values = {t: [1.0] for t in range(3)}
    a = evaluated_run(tmp_path / "a", (2, under(3), values))
    b = evaluated_run(tmp_path / ("b" * 70))
    assert run_command(["compare", str(a), str(b)]) == 1
    said = capsys.readouterr().out
    assert "…" not in said
    assert f"{b} was never evaluated under it; `rollwright eval {b} --protocol` does that" in said


def test_runs_of_an_arm_are_joined_by_commas(tmp_path, capsys):
    frozen = under(3)
    made = {
        name: str(evaluated_run(tmp_path / name, (2, frozen, {t: [v] for t in range(3)}), seeds={"run": int(name[1])}))
        for name, v in {"a0": 0.0, "a1": 0.0, "b0": 1.0, "b1": 0.0}.items()
    }
    arms = [f"{made['a0']},{made['a1']}", f"{made['b0']},{made['b1']}"]
    assert run_command(["compare", *arms, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    success = lines[-1]["differences"][0]
    assert (success["num_pairs"], success["mean"]) == (2, 0.5)


@pytest.mark.parametrize("how", ["twice in an arm", "across arms", "a link", "a copy"])
def test_one_run_is_compared_once_under_whatever_path(two, how, tmp_path, capsys):
    a, b = two
    (tmp_path / "link").symlink_to(a)
    shutil.copytree(a, tmp_path / "copy")
    words = {
        "twice in an arm": [f"{a},{a}", b],
        "across arms": [b, a, a],
        "a link": [a, str(tmp_path / "link")],
        "a copy": [f"{a},{tmp_path / 'copy'}", b],
    }[how]
    assert run_command(["compare", *words]) == 2
    assert "no evidence beside itself" in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [(["compare", "one"], "at least two runs"), (["compare", "a", "b", "--match", "money"], "is not a run folder")],
)
def test_what_cannot_be_compared_is_a_sentence(words, sentence, capsys):
    assert run_command(words) != 0
    assert sentence in capsys.readouterr().err


def test_it_works_without_torch(two):
    code = (
        "import sys; sys.modules['torch'] = None; from rollwright.cli.main import run_command; "
        f"sys.exit(run_command(['compare', {two[0]!r}, {two[1]!r}, '--json']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
