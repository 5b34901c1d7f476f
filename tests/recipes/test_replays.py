"""What a replay follows of a stored run, and which runs it refuses before anything is drawn; by hand-made runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from rollwright.evidence import CommitRows, RunFolder, SegmentSection, StoredRun
from rollwright.recipes.build.manifest import config_sha256
from rollwright.recipes.build.replay import read_replay
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.replays import replay_run
from rollwright.recipes.resolve import recipe_toml, resolve
from tests.end_to_end.small import Listener
from tests.evidence.runs import START, evaluation, manifest, scored_trajectory, trained_step

RECIPE = resolve("arithmetic-tool", ('stages=[{kind="rl", name="rl"}]',)).recipe


def begun(path: Path, *, digest: str = "") -> RunFolder:
    """A run with an evaluation and a checkpoint as step 0, open for writing."""
    made = manifest()
    identity = replace(made.run, config_sha256=digest or config_sha256(RECIPE))
    folder = RunFolder.create(path, manifest(run=identity), recipe_toml(RECIPE))
    keep(folder, evaluation(0))
    return folder


def keep(folder: RunFolder, rows: CommitRows) -> None:
    """A commit with its checkpoint."""
    with folder.writing_checkpoint(folder.commit(rows, at=START)) as path:
        (path / "model.safetensors").write_bytes(b"w")


def test_a_replay_goes_as_far_as_the_newest_checkpoint(tmp_path: Path):
    with begun(tmp_path / "run") as folder:
        keep(folder, trained_step(1))
        keep(folder, trained_step(2))
        folder.commit(trained_step(3), at=START)
        folder.commit(CommitRows(kind="step", step=4, trajectories=[scored_trajectory(group_id=6, slot=0)]), at=START)
    found = read_replay(RECIPE, StoredRun(tmp_path / "run"))
    assert found.steps == 2
    assert {step: [g.group_id for g in groups] for step, groups in found.groups.items()} == {1: [0, 1], 2: [2, 3]}


def test_what_trained_nothing_gives_its_group_ids_once_whatever_its_attempts_and_later_commands_none(tmp_path: Path):
    tries = [scored_trajectory(group_id=9, slot=0, attempt=n, purpose="evaluation") for n in range(3)]
    with begun(tmp_path / "run") as folder:
        step = trained_step(1)
        keep(folder, replace(step, trajectories=[*step.trajectories, *tries]))
        folder.commit(evaluation(1, kind="evaluation", group_id=3_000_000), at=START)
    assert read_replay(RECIPE, StoredRun(tmp_path / "run")).other_ids == (9, 900, 901)


def test_ids_behind_those_of_the_record_are_free_of_trained_groups_too(tmp_path: Path):
    with begun(tmp_path / "run") as folder:
        keep(folder, trained_step(1, groups=1000))
    assert read_replay(RECIPE, StoredRun(tmp_path / "run")).other_ids == (900, 1000)


def test_a_turn_that_went_on_over_the_cache_of_older_weights_is_refused(tmp_path: Path):
    step = trained_step(1, groups=1)
    first, other = step.trajectories
    segments = [
        replace(s, cache_version=0, policy_version=1) if s.segment == 3 else s for s in first.trajectory.segments
    ]
    crossed = replace(first, trajectory=replace(first.trajectory, segments=tuple(segments)))
    with begun(tmp_path / "run") as folder:
        keep(folder, replace(step, trajectories=[crossed, other]))
    with pytest.raises(RecipeError, match=r"turn 1 went on under version 1 .* version 0 had cached .*swap = continue"):
        read_replay(RECIPE, StoredRun(tmp_path / "run"))


def test_a_run_that_is_being_written_is_refused(tmp_path: Path):
    with begun(tmp_path / "run") as folder:
        keep(folder, trained_step(1))
        with pytest.raises(RecipeError, match="is being written by process .*; wait until it has ended"):
            replay_run(tmp_path / "run", tmp_path / "again", Listener())
    assert not (tmp_path / "again").exists()


def test_an_edited_recipe_is_refused(tmp_path: Path):
    begun(tmp_path / "run", digest="1" * 64).close()
    with pytest.raises(RecipeError, match=r"recipe\.toml is not the recipe that the run began with"):
        replay_run(tmp_path / "run", tmp_path / "again", Listener())
    assert not (tmp_path / "again").exists()


def test_a_run_of_several_segments_is_refused(tmp_path: Path):
    with begun(tmp_path / "run") as folder:
        segment = SegmentSection(
            number=2,
            reason="another checker",
            opened_at=START,
            after_step=0,
            previous_sha256=folder.newest_manifest_sha256,
            differences=(),
        )
        folder.open_segment(replace(folder.manifest, segment=segment))
    with pytest.raises(RecipeError, match=r"has 2 segments, made by other code, data, verifiers or values"):
        replay_run(tmp_path / "run", tmp_path / "again", Listener())
    assert not (tmp_path / "again").exists()
