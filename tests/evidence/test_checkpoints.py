"""A checkpoint counts only when it is complete, and old ones go only when newer ones are."""

import pytest

from rollwright.evidence import Checkpoint, RefusedCheckpoint, RunFolder
from tests.cases import case
from tests.evidence.runs import START, trained_step, written_run

FILES = {"model.safetensors": b"weights" * 100, "trainer/optimizer.safetensors": b"moments" * 100}


def save(folder: RunFolder, step: int) -> None:
    commit = next(c for c in folder.commits if c.step == step)
    with folder.writing_checkpoint(commit) as place:
        for name, content in FILES.items():
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(content)


@pytest.fixture
def folder(tmp_path):
    with RunFolder.open(written_run(tmp_path / "run", steps=3), "write") as opened:
        yield opened


def refused(folder: RunFolder) -> dict[str, str]:
    return {c.name: c.reason for c in folder.newest_checkpoint().refused}


def test_a_checkpoint_names_its_commit_and_holds_what_was_written(folder):
    save(folder, 2)
    [found] = folder.checkpoints()
    assert isinstance(found, Checkpoint)
    assert (found.name, found.step, found.commit) == ("step-000002", 2, 3)
    assert {name: (found.path / name).read_bytes() for name in FILES} == FILES


@pytest.mark.case("F93")
def test_resume_takes_the_newest_complete_checkpoint_and_says_what_is_wrong_with_the_rest(folder):
    expect = case("F93").expect
    for step in (1, 2, 3):  # the case's step_10, step_20, step_30
        save(folder, step)
    (folder.path / "checkpoints/step-000002/trainer/optimizer.safetensors").unlink()
    model = folder.path / "checkpoints/step-000003/model.safetensors"
    model.write_bytes(bytes([model.read_bytes()[0] ^ 1]) + model.read_bytes()[1:])
    choice = folder.newest_checkpoint()
    assert choice.chosen is not None
    assert (choice.chosen.step, expect["resume_from"]) == (1, "step_10")
    said = refused(folder)
    assert said["step-000002"].startswith("incomplete")
    assert said["step-000003"].startswith("content check failed")
    assert expect["reported"] == ["step_20 incomplete", "step_30 content check failed"]
    save(folder, 2)  # over the leftovers
    chosen = folder.newest_checkpoint().chosen
    assert chosen is not None
    assert chosen.step == 2


def test_a_folder_without_a_marker_does_not_count(folder):
    (folder.path / "checkpoints/step-000099").mkdir()
    assert refused(folder)["step-000099"].startswith("incomplete")
    assert folder.newest_checkpoint().chosen is None


def test_a_checkpoint_of_an_abandoned_step_does_not_count(folder):
    save(folder, 1)
    save(folder, 3)
    folder.abandon_after(2)
    assert refused(folder)["step-000003"] == (
        "its commit 000004 is no part of the run: a resume went on from before it"
    )
    folder.commit(trained_step(2), at=START)
    folder.commit(trained_step(3, groups=1), at=START)
    assert "step-000003" in refused(folder), "a commit of the same number is another commit"
    save(folder, 3)
    assert refused(folder) == {}


def test_an_error_while_saving_leaves_no_trace(folder):
    with pytest.raises(RuntimeError), folder.writing_checkpoint(folder.commits[1]) as place:
        (place / "model.safetensors").write_bytes(b"half")
        raise RuntimeError
    assert list((folder.path / "checkpoints").iterdir()) == []


def test_a_kill_while_replacing_gives_the_old_one_back(folder):
    save(folder, 1)
    place = folder.path / "checkpoints"
    (place / "step-000001").rename(place / ".step-000001.replaced")
    folder.close()
    with RunFolder.open(folder.path, "write") as again:
        chosen = again.newest_checkpoint().chosen
        assert chosen is not None
        assert chosen.step == 1


@pytest.mark.case("F137")
def test_old_checkpoints_go_only_after_a_newer_complete_one_and_never_the_best(folder):
    expect = case("F137").expect
    scores = {1: 0.5, 2: 0.7, 3: 0.6}

    def prune() -> list[int]:
        best = max((c for c in folder.checkpoints() if isinstance(c, Checkpoint)), key=lambda c: scores[c.step])
        folder.prune_checkpoints(keep_last=1, keep=lambda c: c.name == best.name)
        return [10 * c.step for c in folder.checkpoints() if isinstance(c, Checkpoint)]

    save(folder, 1)
    save(folder, 2)
    assert prune() == expect["after_step_20"]
    with pytest.raises(OSError, match="no room"), folder.writing_checkpoint(folder.commits[3]):
        raise OSError("no room")
    assert prune() == expect["after_failed_step_30"]
    save(folder, 3)
    assert prune() == expect["after_good_step_30"]


def test_pruning_does_not_count_a_damaged_checkpoint_as_the_newest(folder):
    save(folder, 1)
    save(folder, 2)
    (folder.path / "checkpoints/step-000002/model.safetensors").write_bytes(b"other")
    assert folder.prune_checkpoints(keep_last=1, keep=lambda _: False) == ()
    assert [c.name for c in folder.checkpoints()] == ["step-000001", "step-000002"]
    assert not any(isinstance(c, RefusedCheckpoint) for c in folder.checkpoints()), "listing reads no large files"
