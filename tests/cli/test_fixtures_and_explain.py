"""Worked numbers run from the command line, and objectives explained on it."""

import json

import pytest

from rollwright.cli.main import run_command
from rollwright.recipes.fixtures.reading import shipped_fixtures

GOOD = {"id": "good", "method": "M05", "input": {"R": [1, 0, 0, 0]}, "expect": {"A": [0.75, -0.25, -0.25, -0.25]}}
BAD = {"id": "bad", "method": "M05", "input": {"R": [1, 0]}, "expect": {"A": [0.5, 0.5]}}


def written(tmp_path, *fixtures):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(fixtures), encoding="utf-8")
    return str(path)


def lines_of(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_all_that_ships_passes(capsys):
    assert run_command(["fixtures"]) == 0
    assert capsys.readouterr().out == f"{len(shipped_fixtures())} passed, 0 failed\n"


@pytest.mark.parametrize("fixture", shipped_fixtures(), ids=lambda fixture: fixture.id)
def test_each_that_ships_passes_by_itself(fixture):
    from rollwright.recipes.fixtures.families import load_adapters
    from rollwright.recipes.fixtures.running import run_fixtures

    (outcome,) = run_fixtures([fixture], load_adapters())
    assert outcome.has_passed, outcome.sentence(3)


def test_a_failure_is_a_line_with_the_difference(tmp_path, capsys):
    assert run_command(["fixtures", written(tmp_path, GOOD, BAD)]) == 1
    assert capsys.readouterr().out == (
        "bad: A[1] expected 0.5, got -0.5 (differs by 1, tol 1e-09)\n1 passed, 1 failed\n"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps([GOOD | {"tol": 10**400}]), "it takes a finite number of at least 0"),
        ('[{"id": "twice", "method": "M05", "input": {"R": [1], "R": [0]}, "expect": {"A": [0]}}]', "gives 'R' twice"),
        (json.dumps([GOOD | {"method": "M04", "input": {"R": [1, 0], "ddof": "inf"}}]), "'ddof' needs a whole number"),
        (json.dumps([GOOD | {"input": {"R": [1, 0], "group": [0]}}]), "group has 1 values and R has 2"),
    ],
)
def test_a_number_or_a_name_that_no_file_may_hold_is_a_sentence(text, says, tmp_path, capsys):
    (tmp_path / "mine.json").write_text(text, encoding="utf-8")
    assert run_command(["fixtures", str(tmp_path / "mine.json")]) == 2
    assert says in capsys.readouterr().err


def test_several_files_are_run_together(tmp_path, capsys):
    path = written(tmp_path, GOOD)
    assert run_command(["fixtures", path, path]) == 0
    assert capsys.readouterr().out == "2 passed, 0 failed\n"


def test_for_a_machine_each_fixture_is_an_object(tmp_path, capsys):
    assert run_command(["fixtures", written(tmp_path, GOOD, BAD), "--json"]) == 1
    good, bad, summary = lines_of(capsys.readouterr().out)
    assert (good["id"], good["passed"], good["differences"]) == ("good", True, [])
    assert (bad["passed"], bad["differences"][0]["place"]) == (False, "A[1]")
    assert summary == {"passed": 1, "failed": 1}


@pytest.mark.parametrize(
    ("fixture", "says"),
    [
        ({**GOOD, "method": "m5"}, "names the method 'm5', which does not exist"),
        ({**GOOD, "input": {"r": [1]}}, "an input 'r', which it does not have; did you mean R?"),
        ({**GOOD, "input": {}}, "leaves out what M05 requires: 'R'"),
        ({**GOOD, "input": {"R": "all"}}, "needs a list of numbers"),
        ({**GOOD, "expect": {}}, "expects nothing"),
    ],
)
def test_what_is_asked_wrongly_has_its_own_exit_code(tmp_path, capsys, fixture, says):
    assert run_command(["fixtures", written(tmp_path, fixture)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert says in " ".join(shown.err.split())


def test_the_list_names_methods_inputs_outputs_and_sources(tmp_path, capsys):
    assert run_command(["fixtures", "--list"]) == 0
    text = capsys.readouterr().out
    for fixture in shipped_fixtures():
        assert f"\n{fixture.method}  " in f"\n{text}"
    assert run_command(["fixtures", "--list", written(tmp_path, GOOD)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("M05  ")
    assert "arXiv:2503.20783" in text
    assert "R " in text and "required" in text
    assert "gives   A" in text
    assert "M04" not in text


def test_the_list_for_a_machine_has_every_input(capsys):
    assert run_command(["fixtures", "--list", "--json"]) == 0
    listed = {line["method"]: line for line in lines_of(capsys.readouterr().out)}
    for fixture in shipped_fixtures():
        line = listed[fixture.method]
        assert set(fixture.given) <= {one["name"] for one in line["inputs"]}
        assert set(fixture.expect) <= set(line["outputs"])


def test_an_objective_is_explained_in_lines(capsys):
    assert run_command(["recipe", "explain", "gspo"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("objective gspo\n")
    for words in (
        "M04",
        "M37",
        "M53",
        "M72",
        "clip(s, 0.9997, 1.0004)",
        "[D: arXiv:2507.18071]",
        "needs         proximal",
    ):
        assert words in text


def test_what_is_left_out_is_shown_with_who_kept_it(capsys):
    assert run_command(["recipe", "explain", "cispo"]) == 0
    text = capsys.readouterr().out
    assert "clip(ρ, 0, ?)" in text
    assert "undisclosed   surrogate: high = ?; U: MiniMax-M1" in text
    assert "left out      objective.surrogate." in text


def test_a_recipe_is_explained_with_origin_and_label(capsys):
    assert run_command(["recipe", "explain", "arithmetic-tool", "--set", "rollout.group_size=16"]) == 0
    text = capsys.readouterr().out
    assert "rollout.group_size = 16  (command line)" in text
    assert 'objective.denominator = "token_mean"  (preset arithmetic-tool, D)' in text


def test_for_a_machine_each_part_is_an_object(capsys):
    assert run_command(["recipe", "explain", "arithmetic-tool", "--json"]) == 0
    lines = lines_of(capsys.readouterr().out)
    parts = {line["part"]: line for line in lines if "part" in line}
    assert parts["credit.credit"]["method"] == "M05"
    assert parts["surrogate"]["numbers"] == {"low": "0.8", "high": "1.2"}
    assert parts["surrogate"]["labels"] == ["D"]
    (masses,) = [line for line in lines if "denominator" in line]
    assert masses["row_tokens"] == [2, 8, 4]
    assert sum(masses["row_masses"]) == pytest.approx(1.0)
    summary = {"objective": "dr_grpo", "needs": ["proximal"], "left_out": [], "not_trainable": None}
    assert lines[-1].items() >= summary.items()
    assert {line["key"] for line in lines if "key" in line} >= {"objective.kind", "rollout.truncation"}


def test_on_a_terminal_a_long_line_goes_on_below_its_words(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert run_command(["recipe", "explain", "vapo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    (credit,) = [place for place, line in enumerate(lines) if line.startswith("credit ")]
    assert lines[credit + 1].startswith(" " * 14) and lines[credit + 1][14] != " "
