"""A record is complete: what was stored can be learned from again, and sampling can be had without learning."""

import shutil
from pathlib import Path

import pytest

from rollwright.cli.main import run_command
from rollwright.evidence import RunFolder, StoredRun, check, connect, content_hash, table_hashes
from rollwright.recipes.runs import TrainOrder, resume_run, stored_recipe, train_run
from rollwright.runtime.errors import NoProgressError
from tests.end_to_end.conftest import Finished, Recorded
from tests.end_to_end.small import RECIPE, Listener, arguments, small, small_rl


@pytest.fixture(scope="module")
def again(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded run, learned from again."""
    path = tmp_path_factory.mktemp("stored") / "again"
    order = TrainOrder(
        resolved=stored_recipe(recorded.path, ()), run_dir=path, source=recorded.path, is_rollouts_only=False
    )
    train_run(order, Listener())
    return path


def test_a_stored_run_trained_again_gives_the_same_losses_and_receipts(recorded: Recorded, again: Path) -> None:
    before, after = table_hashes(recorded.path), table_hashes(again)
    for table in ("trajectories", "segments", "tool_calls", "verdicts", "receipts", "evaluations"):
        assert after[table] == before[table], table
    assert _losses(again) == _losses(recorded.path)
    assert len(_losses(again)) == 42


def test_a_stored_run_trained_again_keeps_the_ids_and_names_its_source(recorded: Recorded, again: Path) -> None:
    source, copy = StoredRun(recorded.path), StoredRun(again)
    for step in (1, 41, 42):
        purpose = "train" if step > 40 else "demonstration"
        assert [_ids(g) for g in copy.groups(purpose, step)] == [_ids(g) for g in source.groups(purpose, step)]
    assert copy.folder.manifest.run.source_run_id == source.folder.manifest.run.run_id


def test_a_stored_run_trained_again_is_sound_by_itself(again: Path) -> None:
    assert check(again).findings == ()


def test_other_settings_on_the_same_episodes_are_another_run(tmp_path: Path) -> None:
    first = TrainOrder(resolved=small(), run_dir=tmp_path / "first", source=None, is_rollouts_only=False)
    train_run(first, Listener())
    resolved = stored_recipe(tmp_path / "first", ("learner.learning_rate=5e-2",))
    order = TrainOrder(resolved=resolved, run_dir=tmp_path / "other", source=tmp_path / "first", is_rollouts_only=False)
    train_run(order, Listener())
    found, before = _losses(tmp_path / "other"), _losses(tmp_path / "first")
    assert found[:4] == before[:4]  # the first RL update starts from the same weights
    assert table_hashes(tmp_path / "other")["evaluations"] != table_hashes(tmp_path / "first")["evaluations"]


def test_a_batch_that_was_sampled_with_a_lag_is_learned_from_without_what_was_sampled_ahead(tmp_path: Path) -> None:
    source, path = tmp_path / "sampled", tmp_path / "learned"
    resolved = small_rl("runtime.max_lag=2")
    train_run(TrainOrder(resolved=resolved, run_dir=source, source=None, is_rollouts_only=True), Listener())
    order = TrainOrder(resolved=stored_recipe(source, ()), run_dir=path, source=source, is_rollouts_only=False)
    train_run(order, Listener())
    (learned,) = (StoredRun(path).groups("train", step) for step in StoredRun(path).steps if step)
    assert sum(len(group.members) for group in learned) == 16


def test_a_step_that_was_never_trained_is_none_to_learn_from(tmp_path: Path) -> None:
    source, path = tmp_path / "stopped", tmp_path / "learned"
    resolved = small("rollout.dynamic_sampling=true", "rollout.max_extra_groups=0", "rollout.at_cap=refuse")
    with pytest.raises(NoProgressError):
        train_run(TrainOrder(resolved=resolved, run_dir=source, source=None, is_rollouts_only=False), Listener())
    order = TrainOrder(resolved=stored_recipe(source, ()), run_dir=path, source=source, is_rollouts_only=False)
    train_run(order, Listener())
    assert max(StoredRun(path).steps) == max(StoredRun(source).steps) - 1


def test_a_run_that_was_broken_off_gives_the_losses_that_it_had(finished: Finished, tmp_path: Path) -> None:
    # Steps 1 to 4 of 6: the schedules stay those of the whole recipe.
    short = tmp_path / "short"
    shutil.copytree(finished.path, short)
    with RunFolder.open(short, "write") as folder:
        folder.abandon_after(next(c.number for c in folder.commits if c.step == 4))
    heard = Listener()
    order = TrainOrder(
        resolved=stored_recipe(short, ()), run_dir=tmp_path / "again", source=short, is_rollouts_only=False
    )
    train_run(order, heard)
    assert any("holds 4 of the recipe's 6 steps" in sentence for sentence in heard.warnings)
    assert heard.started[0].total_steps == 4
    assert _losses(tmp_path / "again") == _losses(finished.path)[:4]
    resume_run(tmp_path / "again", Listener())


def test_what_was_only_sampled_can_be_learned_from_later(tmp_path: Path) -> None:
    settings = small()
    sampled = TrainOrder(resolved=settings, run_dir=tmp_path / "sampled", source=None, is_rollouts_only=True)
    train_run(sampled, Listener())
    assert _losses(tmp_path / "sampled") == []
    with connect(tmp_path / "sampled") as connection:
        counts = connection.execute("SELECT purpose, count(*) FROM trajectories GROUP BY ALL").fetchall()
    assert counts == [("demonstration", 3 * 8)]

    heard = Listener()
    learned = TrainOrder(
        resolved=stored_recipe(tmp_path / "sampled", ()),
        run_dir=tmp_path / "learned",
        source=tmp_path / "sampled",
        is_rollouts_only=False,
    )
    train_run(learned, heard)
    assert [report.step for report in heard.steps] == [1, 2, 3]
    assert any("3 of the recipe's 5 steps" in sentence for sentence in heard.warnings)

    whole = TrainOrder(resolved=settings, run_dir=tmp_path / "whole", source=None, is_rollouts_only=False)
    train_run(whole, Listener())
    assert _losses(tmp_path / "learned") == _losses(tmp_path / "whole")[:3]


def test_the_first_rl_batch_can_be_only_sampled(tmp_path: Path) -> None:
    settings = small_rl()
    order = TrainOrder(resolved=settings, run_dir=tmp_path / "sampled", source=None, is_rollouts_only=True)
    result = train_run(order, Listener())
    assert result.num_episodes == 16
    assert _losses(tmp_path / "sampled") == []

    order = TrainOrder(
        resolved=stored_recipe(tmp_path / "sampled", ()),
        run_dir=tmp_path / "learned",
        source=tmp_path / "sampled",
        is_rollouts_only=False,
    )
    train_run(order, Listener())
    assert check(tmp_path / "learned").findings == ()
    assert len(_losses(tmp_path / "learned")) == 1
    assert table_hashes(tmp_path / "learned")["segments"] != table_hashes(tmp_path / "sampled")["segments"]


def test_a_dry_run_prints_every_value_with_its_origin_and_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    code = run_command(
        ["train", RECIPE, "--dry-run", "--json", "--run-dir", str(tmp_path / "run"), *arguments("run.steps=7")]
    )
    out = capsys.readouterr().out
    assert code == 0
    assert '{"key": "run.steps", "value": 7, "origin": "command line"' in out
    assert '"origin": "default"' in out
    assert f'"origin": "preset {RECIPE}"' in out
    assert sorted(tmp_path.rglob("*")) == before


def test_a_stored_run_is_not_touched_by_learning_from_it(recorded: Recorded, again: Path) -> None:
    assert content_hash(recorded.path) == recorded.result.content_hash


def _losses(path: Path) -> list[float]:
    """Of every update, in order."""
    with connect(path) as connection:
        rows = connection.execute("SELECT update, sum(loss) FROM receipts GROUP BY update ORDER BY update").fetchall()
    return [loss for _, loss in rows]


def _ids(group) -> tuple[int, tuple[str, ...]]:
    return group.group_id, tuple(m.trajectory_id for m in group.members)
