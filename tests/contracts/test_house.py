"""What holds over the whole project: exports, contracts, what documents name, and nothing of one machine."""

import importlib
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import rollwright
from rollwright.cli.main import run_command
from tools import cases, methods, objectives, rows
from tools.markers import MarkedTest, find_marked_tests

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
CONTRACTS = {contract["id"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}
ROOMS = sorted(module.name for module in pkgutil.iter_modules(rollwright.__path__) if module.ispkg)
TORCH_ROOMS = {"algorithms", "batches", "learner"}
TORCH_FREE = ("record", "evidence", "statistics", "planning", "viewer")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@cache
def committed_text() -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    text: dict[str, str] = {}
    for path in paths:
        try:
            text[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
    return text


@cache
def marked_tests(mark: str) -> list[MarkedTest]:
    return find_marked_tests(ROOT, mark)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_exports_names_that_exist(room):
    module = importlib.import_module(f"rollwright.{room}")
    assert module.__doc__, f"rollwright.{room} says in one line what it is"
    missing = [name for name in getattr(module, "__all__", []) if not hasattr(module, name)]
    assert missing == []


def test_every_room_stands_in_the_layers():
    layers = " ".join(CONTRACTS["layers"]["layers"])
    assert set(ROOMS) <= set(re.findall(r"\w+", layers))
    assert CONTRACTS["layers"]["exhaustive"] is True


def test_every_room_that_may_not_import_torch_is_in_the_contract():
    assert {f"rollwright.{room}" for room in ROOMS} - set(CONTRACTS["torch"]["source_modules"]) == {
        f"rollwright.{room}" for room in TORCH_ROOMS & set(ROOMS)
    }


def test_the_learner_is_kept_from_every_room_that_exists():
    hidden = {"tasks", "environments", "verifiers", "engines", "sandboxes"} & set(ROOMS)
    assert {f"rollwright.{room}" for room in hidden} <= set(CONTRACTS["learner"]["forbidden_modules"])


def test_rooms_that_work_without_torch_do_not_load_it():
    rooms = [room for room in TORCH_FREE if room in ROOMS]
    program = (
        "import sys\n" + "".join(f"import rollwright.{room}\n" for room in rooms) + "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_the_pins_are_exact_and_cover_what_the_project_asks_for():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []
    pinned = {canonical(line.partition("==")[0]) for line in pins}
    extras = PROJECT["project"]["optional-dependencies"].values()
    asked = [*PROJECT["project"]["dependencies"], *(wanted for extra in extras for wanted in extra)]
    # It asks for an older pillow than the others, so it is installed in an environment of its own.
    apart = {"trackio"}
    assert {canonical(re.split(r"[\[<>=]", wanted)[0]) for wanted in asked} - pinned == apart


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_make_targets_named_in_a_document_exist(document):
    named = set(re.findall(r"\bmake ([a-z][a-z0-9-]+)", "\n".join(code_of(document))))
    targets = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))
    assert {name for name in named if name not in targets and not name.startswith("prove-")} == set()


def test_commands_named_in_the_documents_exist(capsys):
    """Each is asked for its help, as a newcomer would."""
    code = "\n".join(line for document in DOCUMENTS for line in code_of(document))
    commands = sorted(set(re.findall(r"\brollwright ([a-z]+)", code)))
    assert commands
    for command in commands:
        assert run_command([command, "--help"]) == 0, command
        assert f"rollwright {command}" in capsys.readouterr().out


def test_the_module_is_the_command():
    asked = [sys.executable, "-m", "rollwright", "--help"]
    told = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0
    assert "rollwright train" in told.stdout


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_of_a_document_lead_somewhere(document):
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    assert [target for target in targets if not (document.parent / target).exists()] == []


def code_of(document: Path) -> list[str]:
    """The code of a page: its indented and fenced lines, and what stands in back-ticks."""
    text = document.read_text(encoding="utf-8")
    lines = re.findall(r"^ {4}.*$", text, re.MULTILINE)
    return [*lines, *re.findall(r"```.*?```", text, re.DOTALL), *re.findall(r"`[^`\n]+`", text)]


WITH_SANDBOXES = re.compile("sandbox|hostile|attacks|repositor|terminal|interpreter")


def test_no_committed_file_names_a_folder_of_one_machine():
    folders = re.compile(r"(?<![\w.}])/(?:home|root|Users|mnt|opt)/\w+")
    work = re.compile(r"(?<![\w.}])/work/\w+")
    """Of a machine, except where it is the folder in which the programs of a sandbox start."""
    found = {
        name: folders.findall(text) + ([] if WITH_SANDBOXES.search(name) else work.findall(text))
        for name, text in committed_text().items()
        if name != "tests/contracts/test_house.py" and not name.startswith("tests/data/attacks/")
    }
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_no_committed_file_is_large():
    large = {name: len(text) for name, text in committed_text().items() if len(text) > 500_000}
    assert large == {}


def test_waivers_carry_their_code_and_a_reason():
    bare = re.compile(
        r"#\s*(?:noqa(?!:\s*[A-Z]+\d+(?:, [A-Z]+\d+)*\s+-\s)"
        r"|(?:type|pyright):\s*ignore(?!\[[\w-]+(?:, [\w-]+)*\]\s+[#-]\s))"
    )
    found = {
        name: number
        for name, text in committed_text().items()
        if name.endswith(".py") and name != "tests/contracts/test_house.py"
        for number, line in enumerate(text.splitlines(), 1)
        if bare.search(line)
    }
    assert found == {}


def test_the_reference_pages_are_current():
    """After a change of marks or of the catalogue: `make docs`."""
    shown = rows.load_rows()
    row_tests = rows.group_tests([row.id for row in shown], marked_tests("row"), "row")
    page = rows.render_document(shown, row_tests, rows.load_reasons())
    assert (ROOT / rows.DOCUMENT).read_text(encoding="utf-8") == page
    titles = cases.load_case_titles()
    case_tests = rows.group_tests([case.id for case in titles], marked_tests("case"), "case")
    assert (ROOT / cases.DOCUMENT).read_text(encoding="utf-8") == cases.render_document(titles, case_tests)
    assert (ROOT / methods.DOCUMENT).read_text(encoding="utf-8") == methods.render_document()
    proofs = (ROOT / objectives.PROOFS).read_text(encoding="utf-8").splitlines()
    assert (ROOT / objectives.DOCUMENT).read_text(encoding="utf-8") == objectives.render_document(proofs)


def test_every_row_of_the_mathematics_of_rollout_and_of_the_world_has_a_test_or_a_reason_and_none_has_both():
    listed = rows.load_rows()
    shown = rows.group_tests([row.id for row in listed], marked_tests("row"), "row")
    reasons = rows.load_reasons()
    assert set(reasons) == {row.id for row in listed if row.group in (3, 4, 5, 7, 8) and not shown[row.id]}


def test_fixtures_say_where_they_come_from():
    shipped = ROOT / "src/rollwright/recipes/fixtures/methods.json"
    for path in (shipped, *(ROOT / "tests/fixtures").glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        assert content["source"], path.name
        assert content["computed_by"], path.name
