"""What documents show is true: their commands run, their examples give what stands below them, their keys exist."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rollwright.algorithms.catalogue import FAMILIES, METHODS
from rollwright.cli.explaining import recipe_explain
from rollwright.cli.fixtures import fixtures
from rollwright.cli.looking import recipe_show
from rollwright.cli.main import run_command
from rollwright.cli.training import train
from rollwright.recipes.build.objective import refuse_untrainable
from rollwright.recipes.config import RecipeConfig
from rollwright.recipes.explain import explain, objective_names
from rollwright.recipes.keys import fields_at
from rollwright.recipes.resolve import resolve

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
OWN_OBJECTIVE = ROOT / "docs/how-to/own-algorithm.md"
ALGORITHMS = ROOT / "docs/explanation/algorithms/README.md"
WRITTEN = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reference")
DOCUMENTS = [README, ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", *WRITTEN]
FILES_OF_THE_READER = ("mine.toml", "my.json")


def blocks(document: Path, language: str) -> list[str]:
    """Fenced blocks of a language, in order; those without one under an empty name."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def looking_commands() -> list[str]:
    """Commands of indented lines, and of the help, that start nothing and read no file of the reader's."""
    lines = [
        line.strip()
        for document in DOCUMENTS
        for line in re.findall(r"^ {4}(rollwright .*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    for screen in (recipe_explain, recipe_show, train, fixtures):
        lines += re.findall(r"^ +(rollwright .*)$", screen.__doc__ or "", re.MULTILINE)
    quiet = [line for line in lines if re.match(r"rollwright (recipe|fixtures --list)|.* --dry-run", line)]
    return sorted({line for line in quiet if not any(name in line for name in FILES_OF_THE_READER)})


def ran(program: str) -> str:
    asked = [sys.executable, "-c", program]
    return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.parametrize("command", looking_commands())
def test_a_command_that_only_looks_runs_as_it_is_written(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(shlex.split(command, comments=True)[1:]) == 0, capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_keys_of_an_objective_that_a_document_names_exist(document):
    code = " ".join(re.findall(r"`([^`\n]+)`", document.read_text(encoding="utf-8")))
    keys = set(re.findall(r"\b(?:objective|rollout)(?:\.[a-z_]+)+", code)) - {"objective.py", "objective.kind"}
    assert {key for key in keys if not fields_at(RecipeConfig, key.split("."))} == set()


def test_the_library_gives_what_the_readme_shows():
    (program,) = blocks(README, "python")
    assert ran(program) in blocks(README, "")


def test_the_readme_counts_the_objectives_that_there_are():
    names = set(objective_names()) - {"composed"}
    unfed = {name for name in names if explain(name).unfed is not None}
    text = " ".join(README.read_text(encoding="utf-8").split())
    assert f"{len(names)} objectives by name, of which {len(names) - len(unfed)} train" in text
    (listed,) = re.findall(r"the nine objectives by name that need it \(([^)]*)\)", text)
    assert set(re.findall(r"`(\w+)`", listed)) == unfed
    assert len(unfed) == 9


def test_the_readme_counts_the_methods_that_there_are():
    assert f"Worked numbers of {len(METHODS)} methods ship" in " ".join(README.read_text(encoding="utf-8").split())


def test_the_page_of_a_family_has_each_of_its_methods():
    pages = {family: (ALGORITHMS.parent / f"{family}.md").read_text(encoding="utf-8") for family in FAMILIES}
    assert [one.id for one in METHODS if not re.search(rf"\b{one.id}\b", pages[one.family])] == []


def test_the_composed_recipe_is_one_that_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (recipe,) = blocks(OWN_OBJECTIVE, "toml")
    (tmp_path / "mine.toml").write_text(recipe, encoding="utf-8")
    for command in (["train", "mine.toml", "--dry-run"], ["recipe", "explain", "mine.toml"]):
        assert run_command(command) == 0
    shown = capsys.readouterr().out
    assert 'objective.kind                      "composed"' in shown
    assert "recipe composed, objective composed" in shown
    found = resolve("mine.toml").recipe
    refuse_untrainable(found)


def test_a_part_of_ones_own_is_checked_and_described():
    (program,) = blocks(OWN_OBJECTIVE, "python")
    assert "failures_count_half" in ran(program)


def test_a_fixture_of_ones_own_says_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (text,) = blocks(ALGORITHMS, "json")
    passed, failed = blocks(ALGORITHMS, "")
    (tmp_path / "my.json").write_text(text, encoding="utf-8")
    assert run_command(["fixtures", "my.json"]) == 0
    assert capsys.readouterr().out == passed
    level, ratio = json.loads(text)
    level["expect"]["A"][4] = 0.5
    (tmp_path / "my.json").write_text(json.dumps([level, ratio]), encoding="utf-8")
    assert run_command(["fixtures", "my.json"]) == 1
    assert capsys.readouterr().out == failed
