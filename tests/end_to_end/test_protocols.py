"""Protocols in a run: several at the same steps, one added later, what the run notes of them, and runs compared."""

from pathlib import Path

import pytest

from rollwright.evaluation.comparison import compare_runs, read_arm
from rollwright.evidence import RunFolder, query, stored_evaluations
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import resolve
from rollwright.recipes.runs import EvaluationOrder, TrainOrder, evaluate_run, train_run
from rollwright.tasks.contamination import AUDIT_RULES
from tests.end_to_end.small import RECIPE as NAME
from tests.end_to_end.small import SMALL, Listener


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("protocols")
    own = "tasks = 6\nsamples = 4\nattempts = [1, 2, 4]\n"
    (folder / "own.toml").write_text(own, encoding="utf-8")
    gold = 'tasks = 5\nsamples = 2\ngold = [{ kind = "numeric" }]\n'
    (folder / "gold.toml").write_text(gold, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run under two protocols."""
    path = tmp_path_factory.mktemp("measured") / "run"
    inline = [s for s in SMALL if not s.startswith("evaluation.")]
    named = f'evaluation.protocol=["{files / "own.toml"}", "{files / "gold.toml"}"]'
    resolved = resolve(NAME, (*inline, named, "evaluation.every=1"))
    train_run(TrainOrder(resolved=resolved, run_dir=path, source=None, is_rollouts_only=False), Listener())
    return path


def order(run: Path, protocol: str | None, *, step: int | None = None) -> EvaluationOrder:
    return EvaluationOrder(run=run, step=step, tasks=None, samples=None, temperature=None, protocol=protocol)


def test_both_protocols_are_measured_at_the_same_steps_and_keep_their_attempts_apart(run: Path) -> None:
    found = [e for e in stored_evaluations(RunFolder.open(run)) if e.commit <= 6]
    assert {(e.protocol, e.step) for e in found} == {(name, step) for name in ("own", "gold") for step in (0, 3, 4, 5)}
    assert {e.protocol: len(e.attempts) for e in found} == {"own": 6 * 4, "gold": 5 * 2}
    assert all(set(e.counts.values()) <= {(4, c) for c in range(5)} for e in found if e.protocol == "own")


def test_the_manifest_pins_the_first_protocol_and_the_digests_of_the_others(run: Path) -> None:
    folder = RunFolder.open(run)
    digests = {e.protocol: e.protocol_sha256 for e in stored_evaluations(folder)}
    assert (folder.manifest.evaluation.protocol, folder.manifest.evaluation.protocol_sha256) == ("own", digests["own"])
    assert folder.manifest.digests["protocol gold"] == digests["gold"]
    noted = {e.fields["name"]: e.fields["sha256"] for e in folder.events() if e.kind == "protocol"}
    assert {"own": digests["own"], "gold": digests["gold"]}.items() <= noted.items()


def test_the_gold_verifier_judged_the_same_episodes_and_its_verdicts_are_kept(run: Path) -> None:
    sql = """SELECT count(*), count(DISTINCT v.trajectory_id), count(t.trajectory_id) FROM verdicts v
      LEFT JOIN trajectories t ON t.trajectory_id = v.trajectory_id AND t.purpose = 'evaluation'
      WHERE verifier = 'numeric'"""
    ((verdicts, judged, evaluated),) = query(run, sql).rows
    assert verdicts == judged == evaluated and int(str(judged)) >= 4 * 5 * 2
    gaps = query(run, "SELECT step FROM evaluations WHERE metric = 'gold_gap' AND labels['slice'] IS NULL").rows
    assert {step for (step,) in gaps} >= {0, 3, 4, 5}


def test_the_tax_is_against_the_start_of_the_last_stage_and_has_none_before(run: Path) -> None:
    sql = """SELECT step, labels['base'] FROM evaluations
      WHERE metric = 'sharpening_tax_area' AND protocol = 'own' ORDER BY step"""
    assert query(run, sql).rows == ((4, "3"), (5, "3"))


def test_the_audit_of_its_own_tasks_is_an_event_whose_revision_the_manifest_names(run: Path) -> None:
    folder = RunFolder.open(run)
    (audit,) = [event for event in folder.events() if event.kind == "contamination"]
    assert (audit.fields["num_train"], audit.fields["num_held_out"]) == ("64", "32")
    assert AUDIT_RULES.revision in (folder.manifest.data.contamination_audit_revision or "")


def test_a_later_evaluation_by_the_same_file_gives_the_same_numbers(run: Path, files: Path) -> None:
    before = [e for e in stored_evaluations(RunFolder.open(run)) if e.protocol == "own" and e.step == 5][0]
    evaluation = evaluate_run(order(run, str(files / "own.toml"), step=5), Listener())
    assert {r.protocol_sha256 for r in evaluation.rows} == {before.protocol_sha256}
    numbers = [(r.metric, r.labels, r.value, r.low, r.high) for r in before.rows]
    assert [(r.metric, r.labels, r.value, r.low, r.high) for r in evaluation.rows] == numbers


def test_a_pinned_protocol_is_refused_for_a_run_with_another_prompt(run: Path, files: Path) -> None:
    pinned = files / "pinned.toml"
    pinned.write_text('tasks = 6\nrendering_revision = "another"\n', encoding="utf-8")
    with pytest.raises(RecipeError, match="is pinned to something else than what is here"):
        evaluate_run(order(run, str(pinned)), Listener())


def test_a_run_beside_itself_differs_in_nothing(run: Path) -> None:
    found = compare_runs([read_arm([run]), read_arm([run])])
    assert found.fields == () and {c.protocol for c in found.contrasts} >= {"own", "gold"}
    assert {d.mean for c in found.contrasts for d in c.differences} == {0.0}
    assert all(line.is_matched for c in found.contrasts for line in c.budgets)
