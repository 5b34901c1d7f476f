"""What a person types and what comes back: help that teaches, errors in a sentence, exit codes that a script reads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rollwright.cli.main import run_command
from rollwright.recipes.resolve import preset_names, recipe_toml, resolve
from tests.evidence.runs import written_run

COMMANDS = (
    ("train",),
    ("resume",),
    ("eval",),
    ("score",),
    ("audit",),
    ("query",),
    ("fixtures",),
    ("recipe", "list"),
    ("recipe", "show"),
    ("recipe", "explain"),
    ("env", "list"),
    ("env", "check"),
    ("env", "new"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return written_run(tmp_path_factory.mktemp("cli") / "run")


def lines_of(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["recipe"], ["recipe", "--help"]])
def test_without_a_command_the_help_is_shown(capsys, arguments):
    assert run_command(arguments) == 0
    shown = capsys.readouterr()
    assert "Usage: rollwright" in shown.out
    assert shown.err == ""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_help_of_each_command_has_examples_one_a_line(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "160")
    assert run_command([*command, "--help"]) == 0
    examples = [line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("rollwright ")]
    assert examples
    assert all(line.strip().startswith(f"rollwright {' '.join(command)}") for line in examples)
    assert all(line.count("rollwright") == 1 for line in examples)


def test_the_version_is_printed(capsys):
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out.startswith("rollwright 0.")


def test_recipe_list_names_each_preset(capsys):
    assert run_command(["recipe", "list", "--json"]) == 0
    assert [line["name"] for line in lines_of(capsys.readouterr().out)] == list(preset_names())
    assert run_command(["recipe", "list"]) == 0
    assert all(name in capsys.readouterr().out for name in ["arithmetic-tool"])


@pytest.mark.parametrize("command", [["recipe", "show"], ["train", "--dry-run"]], ids=" ".join)
def test_each_resolved_value_is_shown_with_its_origin(capsys, command):
    arguments = [*command, "arithmetic-tool", "--set", "learner.learning_rate=5e-4"]
    assert run_command([*arguments, "--json"]) == 0
    shown = {line["key"]: line for line in lines_of(capsys.readouterr().out)}
    resolved = resolve("arithmetic-tool", ["learner.learning_rate=5e-4"])
    assert {key: line["value"] for key, line in shown.items()} == resolved.values()
    assert {key: line["origin"] for key, line in shown.items()} == resolved.origins
    assert shown["learner.learning_rate"] == {
        "key": "learner.learning_rate",
        "value": 5e-4,
        "origin": "command line",
        "label": None,
    }
    assert run_command(arguments) == 0
    table = capsys.readouterr().out
    assert all(key in table for key in resolved.origins)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("objective=ppo", "reads a critic's values, which no stage of a run makes yet"),
        ("objective=cispo", "high has no default: MiniMax-M1 (CISPO) did not disclose it"),
        ("objective=cispo", "It is written as objective.surrogate.high."),
    ],
)
def test_a_dry_run_refuses_what_a_run_would_refuse(setting, says, capsys):
    assert run_command(["train", "arithmetic-tool", "--dry-run", "--set", setting]) == 2
    assert says in capsys.readouterr().err


def test_a_dry_run_starts_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(["train", "arithmetic-tool", "--dry-run", "--seed", "7", "--run-dir", "mine"]) == 0
    assert "command line" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["recipe", "show", "arithmetic-tool", "--set", "lr=1"], "did you mean learner.learning_rate?"),
        (["recipe", "show", "arithmetic"], "Did you mean arithmetic-tool?"),
        (["train", "absent.toml"], "no file absent.toml"),
        (["train"], "give a RECIPE"),
        (["train", "--dryrun"], "No such option: --dryrun"),
        (["trane"], "No such command"),
        (["eval"], "Missing argument"),
        (["fixtures", "absent.json"], "absent.json cannot be read: No such file or directory"),
        (["recipe", "explain", "grpoo"], "did you mean grpo?"),
        (["recipe", "explain", "gspo", "--set", "objective.credit=gae"], "takes one advantage a row"),
        (["eval", "runs/x", "--tasks", "0"], "--tasks"),
    ],
)
def test_what_was_asked_wrongly_ends_in_one_sentence(capsys, arguments, says):
    assert run_command(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert says in shown.err
    assert shown.err.startswith("rollwright: ")
    assert len(shown.err.splitlines()) == 1


@pytest.mark.case("F111")
def test_for_a_machine_an_error_is_one_object_with_all_that_is_wrong(capsys):
    assert run_command(["train", "arithmetic-tool", "--set", "lr=1", "--set", "run.steps=0", "--json"]) == 2
    shown = capsys.readouterr()
    assert shown.err == ""
    (line,) = lines_of(shown.out)
    assert line["exit_code"] == 2
    assert "did you mean learner.learning_rate?" in line["error"]
    assert "run.steps takes a whole number of at least 1 and at most 10000000; 0 was given" in line["error"]


@pytest.mark.case("F110")
def test_a_wrong_type_stops_the_command_before_torch_is_loaded(tmp_path):
    path = tmp_path / "mine.toml"
    text = recipe_toml(resolve("arithmetic-tool").recipe)
    right = f"\nlearning_rate = {resolve('arithmetic-tool').recipe.learner.learning_rate}\n"
    text = text.replace(right, '\nlearning_rate = "1e-3"\n', 1)
    path.write_text(text, encoding="utf-8")
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line == 'learning_rate = "1e-3"')
    code, shown = started(f"code = run_command(['train', {str(path)!r}])")
    assert code == 2
    expected = 'learner.learning_rate takes a number above 0 and at most 10; "1e-3" was given'
    assert shown == f"rollwright: {expected} (line {line} of file mine.toml).\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["recipe", "list"],
        ["recipe", "show", "arithmetic-tool"],
        ["train", "--help"],
        ["fixtures", "--help"],
        ["recipe", "explain", "--help"],
    ],
    ids=" ".join,
)
def test_looking_loads_no_torch(arguments):
    assert started(f"code = run_command({arguments!r})")[0] == 0


def started(program: str) -> tuple[int, str]:
    """Run a program with `run_command`; it fails if torch was loaded."""
    source = (
        "import sys\nfrom rollwright.cli.main import run_command\n"
        f"{program}\nassert not {{'torch', 'transformers'}} & set(sys.modules)\nsys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "rollwright", "recipe", "list", "--json"], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert lines_of(done.stdout)[0]["name"] == "arithmetic-tool"


def test_a_reader_that_goes_away_is_no_error():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        command = [sys.executable, "-m", "rollwright", "recipe", "show", "arithmetic-tool", "--json"]
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.stderr == ""


def test_a_query_answers_a_person_and_a_machine(capsys, run):
    sql = "SELECT step, count(*) AS n, sum(influence) / 3 AS moved FROM receipts GROUP BY ALL ORDER BY step"
    assert run_command(["query", str(run), sql]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["step", "n", "moved"]
    assert shown[-1] == "2 rows"
    assert run_command(["query", str(run), sql, "--json"]) == 0
    rows = lines_of(capsys.readouterr().out)
    assert [row["step"] for row in rows] == [1, 2]
    assert shown[1].split() == ["1", str(rows[0]["n"]), f"{rows[0]['moved']:.6g}"]


def test_a_query_gives_a_machine_all_of_every_value(capsys, run):
    sql = """SELECT 'nan'::DOUBLE AS a, 1.5 AS b, NULL AS c, [1, NULL] AS d, {'x': 1} AS e, '\\xAA'::BLOB AS f,
             DATE '2026-01-02' AS g, true AS h, repeat('x', 500) AS i, 1 AS b, 10::HUGEINT AS k"""
    assert run_command(["query", str(run), sql, "--json"]) == 0
    assert lines_of(capsys.readouterr().out) == [
        {
            "a": "nan",
            "b": 1.5,
            "c": None,
            "d": [1, None],
            "e": {"x": 1},
            "f": "aa",
            "g": "2026-01-02",
            "h": True,
            "i": "x" * 500,
            "b_2": 1,
            "k": 10,
        }
    ]


def test_a_query_is_cut_for_a_person(capsys, run):
    assert run_command(["query", str(run), "SELECT repeat('x', 500) AS long, i FROM range(300) t(i)"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 1 + 200 + 1
    assert max(map(len, shown)) < 80
    assert shown[-1] == "300 rows, the first 200 shown; --json gives all"


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELEC 1", "Parser Error: syntax error at or near"),
        ("SELECT nothing FROM receipts", 'Referenced column "nothing" not found'),
        ("SELECT * FROM receits", "Did you mean"),
    ],
)
def test_a_query_that_cannot_be_answered_says_why_in_a_sentence(capsys, run, sql, says):
    assert run_command(["query", str(run), sql]) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert shown.err.startswith("rollwright: the query cannot be answered: ")
    assert len(shown.err.splitlines()) == 1


@pytest.mark.parametrize("command", [["query", "SELECT 1"], ["resume"]], ids=["query", "resume"])
def test_a_folder_that_is_no_run_says_what_to_give(capsys, tmp_path, command):
    assert run_command([command[0], str(tmp_path), *command[1:]]) == 1
    assert "is not a run folder" in capsys.readouterr().err
