"""The manifest of a really trained run: every demanded field, found out by the machine; and its log of metrics."""

import json
import shutil
from pathlib import Path

import pytest

from rollwright.evidence import RunFolder, StoredRun
from rollwright.recipes.build.exporters import mend_log
from rollwright.recipes.build.judge_facts import judge_sections
from rollwright.recipes.build.machine import diff_sha256, package_folder, sources_sha256
from rollwright.recipes.build.world import build_world
from rollwright.recipes.exporters.naming import step_values
from rollwright.recipes.resolve import resolve, resolve_text
from tests.end_to_end.conftest import Finished
from tests.evidence.runs import START
from tests.recipes.test_machine import git

FIELDS = json.loads((Path(__file__).parents[1] / "data" / "evidence" / "manifest_fields.json").read_text())
PLACEHOLDERS = ("unknown", "", "todo", "n/a", None, [], {})


def found_at(tree: object, path: list[str]) -> object:
    while isinstance(tree, list) and path:
        assert tree, f"nothing is listed above {path}"
        tree = tree[-1]
    if not path:
        return tree
    assert isinstance(tree, dict) and path[0] in tree, f"{path} has no place"
    return found_at(tree[path[0]], path[1:])


@pytest.mark.training
def test_every_demanded_field_has_the_value_that_the_machine_could_know(finished: Finished):
    manifest = json.loads((finished.path / "manifest.json").read_text())
    for path, expected in FIELDS["fields"].items():
        value = found_at(manifest, path.split("."))
        match expected:
            case "known":
                assert value not in PLACEHOLDERS, f"{path} is {value!r}"
            case "absent":
                assert value is None, f"{path} is {value!r}, and nothing of the kind exists in this run"
            case "machine":
                assert (value is None) == (manifest["machine"]["accelerators"] == []), f"{path} is {value!r}"
            case _:
                assert value != "", path
    assert manifest["run"]["container_digests"] in ([], ["unknown"])
    assert manifest["run"]["code_sha256"] == sources_sha256(package_folder()) or diff_sha256(package_folder())
    for name in ("code/verifiers", "code/environments", "code/tasks", "code/worlds"):
        assert len(manifest["digests"][name]) == 64
    assert manifest["seeds"] == {"run": 0, "evaluation": 0}


@pytest.mark.training
def test_every_committed_step_and_evaluation_has_a_line_in_the_log(finished: Finished):
    folder, stored = RunFolder.open(finished.path), StoredRun(finished.path)
    lines = folder.metric_lines()
    committed = [c.step for c in folder.commits if c.kind == "step"]
    assert [line.step for line in lines if line.kind == "step"] == [step for step in committed if step > 0]
    assert [line.step for line in lines if line.kind == "evaluation"] == sorted({r.step for r in stored.evaluations()})
    for line in lines:
        if line.kind == "step":
            assert dict(line.values) == pytest.approx(step_values(stored.metrics(line.step)), nan_ok=True)


@pytest.mark.training
def test_lines_of_steps_that_never_happened_go_and_lines_that_a_kill_lost_come_back(finished: Finished, tmp_path: Path):
    run = tmp_path / "run"
    shutil.copytree(finished.path, run)
    log = run / "metrics.jsonl"
    whole = log.read_text().splitlines()
    log.write_text("\n".join([*whole[:1], *whole[3:], whole[-1].replace('"step": 6', '"step": 9')]) + '\n{"kind": "st')
    recipe = resolve_text((run / "recipe.toml").read_text(), origin="run run").recipe
    with RunFolder.open(run, "write") as folder:
        mend_log(recipe, folder, step=6, now=lambda: START)
        lines = folder.metric_lines()
    before = RunFolder.open(finished.path).metric_lines()
    assert [(line.kind, line.step, line.stage) for line in lines] == [(b.kind, b.step, b.stage) for b in before]
    assert [dict(line.values) for line in lines] == [pytest.approx(dict(b.values), nan_ok=True) for b in before]


def test_a_changed_tree_has_a_digest_of_what_changed_files_that_nobody_added_included(tmp_path: Path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "numbers.py").write_text("ONE = 1\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "Begin")
    assert diff_sha256(package) is None
    clean = sources_sha256(package)
    (package / "numbers.py").write_text("ONE = 2\n")
    changed = diff_sha256(package)
    (package / "more.py").write_text("TWO = 2\n")
    added = diff_sha256(package)
    assert len({None, changed, added}) == 3 and sources_sha256(package) != clean
    (package / "more.py").unlink()
    (package / "numbers.py").write_text("ONE = 1\n")
    assert diff_sha256(package) is None and sources_sha256(package) == clean
    assert diff_sha256(tmp_path.parent) is None


def test_a_judge_is_named_with_model_prompt_decoding_and_calibration(tmp_path: Path):
    def section(*settings: str):
        judge = f'kind="judge", model="m-1", url="http://127.0.0.1:9/v1"{"".join(settings)}'
        given = f'verifier.parts=[{{kind="exact"}}, {{{judge}}}]'
        recipe = resolve("arithmetic-tool", [given]).recipe
        world = build_world(recipe)
        try:
            (one,) = judge_sections(recipe, world.verifiers.composition)
        finally:
            world.close()
        return one

    plain = section()
    assert [name for name in FIELDS["judge"] if not hasattr(plain, name)] == []
    assert plain.verifier == "judge" and plain.model_revision.startswith("m-1, ")
    assert plain.decoding == {"temperature": 0.0, "max_tokens": 512.0, "seed": 0.0}
    assert plain.calibration_sha256 is None
    told = section(', instructions="Be kind."')
    assert told.prompt_sha256 != plain.prompt_sha256 and told.model_revision == plain.model_revision
    warm = section(", temperature=0.7")
    assert warm.decoding["temperature"] == 0.7 and warm.prompt_sha256 == plain.prompt_sha256
