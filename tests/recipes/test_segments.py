"""A run whose code, data, environment or verifiers have changed goes on under a segment that says so, or not at all."""

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from rollwright.evidence import (
    Checkpoint,
    ConfigValue,
    EvidenceError,
    Manifest,
    PromptSource,
    RunFolder,
    SegmentSection,
    StoredRun,
    check,
)
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.runs import resume_run
from rollwright.recipes.segments import choose_segment, enter_segment
from tests.end_to_end.small import Listener, rollwright, small_rl, trained
from tests.evidence.runs import START, evaluation, manifest, trained_step


def verifiers_of(revision: str) -> Manifest:
    return manifest(reward=replace(manifest().reward, verifier_revisions={"numeric": revision}))


BEGAN, SECOND, THIRD = verifiers_of("numeric-1"), verifiers_of("numeric-2"), verifiers_of("numeric-3")


def newest(folder: RunFolder) -> Checkpoint | None:
    return folder.newest_checkpoint().chosen


def add_step(folder: RunFolder, step: int, *, is_kept: bool = True) -> None:
    commit = folder.commit(trained_step(step), at=START + timedelta(seconds=step))
    if is_kept:
        with folder.writing_checkpoint(commit) as place:
            (place / "model.safetensors").write_bytes(b"weights")


def go_on(folder: RunFolder, now: Manifest, reason: str | None = None) -> Listener:
    """What a resume does to the folder, without learning anything."""
    listener = Listener()
    chosen = newest(folder)
    segment = choose_segment(folder, now, chosen, reason=reason, at=START)
    folder.abandon_after(0 if chosen is None else chosen.commit)
    enter_segment(folder, segment, listener)
    return listener


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    with RunFolder.create(tmp_path / "run", BEGAN, "") as opened:
        opened.commit(evaluation(0), at=START)
        add_step(opened, 1)
        yield opened


def test_what_has_changed_is_refused_and_the_first_sentence_names_it(folder: RunFolder):
    source = PromptSource(id="arithmetic", revision="2", license="Apache-2.0", split_manifest_sha256="0" * 64)
    now = replace(SECOND, data=replace(SECOND.data, prompt_sources=(source,)))
    with pytest.raises(RecipeError) as refused:
        go_on(folder, now)
    text = str(refused.value)
    assert text.startswith("data.prompt_sources.0.revision was 1 and is 2, so ")
    assert "reward.verifier_revisions.numeric was numeric-1 and is numeric-2" in text
    assert f'`rollwright resume {folder.path} --new-segment "REASON"`' in text
    assert folder.manifests == (BEGAN,) and folder.events() == ()


def test_a_new_segment_is_frozen_with_its_reason_and_the_commits_behind_it_carry_its_digest(folder: RunFolder):
    listener = go_on(folder, SECOND, "the checker was too strict")
    add_step(folder, 2)
    assert [folder.manifest_of(commit).segment is None for commit in folder.commits] == [True, True, False]
    segment = folder.manifest.segment
    assert segment is not None
    assert (segment.number, segment.reason, segment.after_step) == (2, "the checker was too strict", 1)
    assert [(d.path, d.stored, d.now) for d in segment.differences] == [
        ("reward.verifier_revisions.numeric", "numeric-1", "numeric-2")
    ]
    stored = json.loads((folder.path / "manifests" / "segment-0002.json").read_text())
    assert stored["segment"]["previous_sha256"] == folder.commits[0].manifest_sha256
    assert [event.kind for event in folder.events()] == ["segment_opened"]
    assert "the checker was too strict" in listener.warnings[0]
    folder.close()
    with RunFolder.open(folder.path, "write") as again:
        assert len(again.manifests) == 2 and again.manifest == folder.manifest
    assert check(folder.path).findings == ()


def test_in_a_segment_nothing_is_refused_that_is_as_the_segment_is(folder: RunFolder):
    go_on(folder, SECOND, "the checker was too strict")
    add_step(folder, 2)
    assert go_on(folder, SECOND).warnings == []
    with pytest.raises(RecipeError, match=r"numeric was numeric-2 and is numeric-1, so .* would hold two experiments"):
        go_on(folder, BEGAN)


def test_a_segment_of_which_nothing_happened_is_gone_when_the_old_conditions_are_back(folder: RunFolder):
    go_on(folder, SECOND, "the checker was too strict")
    add_step(folder, 2, is_kept=False)
    listener = go_on(folder, BEGAN)
    assert folder.manifests == (BEGAN,)
    assert [commit.step for commit in folder.commits] == [0, 1]
    assert (folder.path / "manifests" / "abandoned" / "segment-0002.json").is_file()
    assert [event.kind for event in folder.events()] == ["segment_opened", "segment_abandoned"]
    assert "goes on in segment 1" in listener.warnings[0]
    go_on(folder, THIRD, "another one")
    go_on(folder, BEGAN)
    assert len(list((folder.path / "manifests" / "abandoned").iterdir())) == 2
    folder.close()
    RunFolder.open(folder.path, "write").close()


def test_a_segment_with_an_evaluation_that_stays_is_not_abandoned(folder: RunFolder):
    go_on(folder, SECOND, "the checker was too strict")
    folder.commit(evaluation(1, kind="evaluation"), at=START)
    with pytest.raises(RecipeError, match="numeric was numeric-2 and is numeric-1"):
        go_on(folder, BEGAN)
    with pytest.raises(EvidenceError, match=r"commit 3 was made under a segment after 1"):
        folder.abandon_segments_after(1)
    go_on(folder, BEGAN, "it was right before")
    assert [folder.manifest_of(c).segment is None for c in folder.commits] == [True, True, False]
    assert len(folder.manifests) == 3


def test_going_on_from_before_a_segment_keeps_the_segment(folder: RunFolder):
    """Its checkpoints are lost, and the run is done again from the step before it, under what it is now."""
    go_on(folder, SECOND, "the checker was too strict")
    add_step(folder, 2)
    shutil.rmtree(folder.path / "checkpoints" / "step-000002")
    assert go_on(folder, SECOND).warnings == []
    assert len(folder.manifests) == 2 and [c.step for c in folder.commits] == [0, 1]
    add_step(folder, 2)
    assert folder.manifest_of(folder.commits[-1]) == folder.manifest


def test_a_segment_is_not_opened_for_nothing_nor_without_a_reason(folder: RunFolder):
    machine = replace(BEGAN.machine, cpu_model="another one")
    for now in (BEGAN, replace(BEGAN, machine=machine)):
        with pytest.raises(RecipeError, match=r"nothing that makes another experiment has changed"):
            go_on(folder, now, "because")
    with pytest.raises(RecipeError, match=r"takes the reason, in words"):
        go_on(folder, SECOND, " ")


def test_another_model_or_tokenizer_is_refused_in_any_segment(folder: RunFolder):
    other = replace(SECOND, model=replace(SECOND.model, num_parameters=7))
    with pytest.raises(RecipeError, match=r"^model.num_parameters was 1000 and is 7, and .* in no segment"):
        go_on(folder, other, "a larger model")
    assert len(folder.manifests) == 1


def test_another_machine_ends_the_promise_and_the_event_says_what_changed(folder: RunFolder):
    now = replace(BEGAN, machine=replace(BEGAN.machine, cpu_model="another one"))
    listener = go_on(folder, now)
    (event,) = folder.events()
    assert event.kind == "promise_ended" and "machine.cpu_model" in event.text
    assert len(listener.warnings) == 1 and "another one" in listener.warnings[0]
    assert len(folder.manifests) == 1


def test_a_value_that_stayed_keeps_who_set_it(folder: RunFolder):
    values = (
        ConfigValue(key="run.steps", value="2", origin="run run"),
        ConfigValue(key="rollout.temperature", value="0.5", origin="run run"),
        ConfigValue(key="rollout.top_p", value="1.0", origin="default"),
    )
    go_on(folder, replace(SECOND, configuration=values), "cooler")
    assert {value.key: value.origin for value in folder.manifest.configuration} == {
        "run.steps": "default",
        "rollout.temperature": "recipe.toml of the run, edited",
        "rollout.top_p": "default",
    }


@pytest.mark.parametrize("edited", ["manifest.json", "manifests/segment-0002.json", "commits/000002-step.json"])
def test_an_old_file_that_is_edited_is_noticed(folder: RunFolder, edited: str):
    go_on(folder, SECOND, "the checker was too strict")
    add_step(folder, 2)
    folder.close()
    file = folder.path / edited
    file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(EvidenceError, match=r"was edited"):
        RunFolder.open(folder.path, "write")


def test_a_segment_that_does_not_follow_the_newest_manifest_is_not_written(folder: RunFolder):
    stray = SegmentSection(number=3, reason="", opened_at=START, after_step=1, previous_sha256="0" * 64, differences=())
    with pytest.raises(EvidenceError, match=r"the next segment of .* is number 2"):
        folder.open_segment(replace(SECOND, segment=stray))
    assert len(folder.manifests) == 1


class _Killed(BaseException):
    """The process ends here."""


class _Dying(Listener):
    """Ends the process at the first thing that it is told."""

    def warned(self, sentence: str) -> None:
        raise _Killed


def test_a_kill_at_any_place_leaves_the_old_segment_or_the_new_one(folder: RunFolder):
    add_step(folder, 2, is_kept=False)
    kept = newest(folder)
    segment = choose_segment(folder, SECOND, kept, reason="killed once", at=START)
    # Before anything: the old one, with what came behind the checkpoint.
    with RunFolder.open(folder.path) as reader:
        assert len(reader.manifests) == 1 and len(reader.commits) == 3
    folder.abandon_after(kept.commit if kept else 0)
    # A manifest that was never renamed never was.
    partial = folder.path / "manifests" / ".segment-0002.json.partial"
    partial.write_bytes(b"{")
    folder.close()
    with RunFolder.open(folder.path, "write") as again:
        assert len(again.manifests) == 1 and not partial.exists()
        # Behind its rename, and before the event: the new one, and a plain resume goes on in it.
        with pytest.raises(_Killed):
            enter_segment(again, segment, _Dying())
    with RunFolder.open(folder.path, "write") as again:
        assert len(again.manifests) == 2
        assert go_on(again, SECOND).warnings == []
        add_step(again, 2)
    assert check(folder.path).findings == ()


OWN = """
import hashlib
from dataclasses import dataclass

from rollwright.record import Verdict


@dataclass(frozen=True)
class Own:
    name: str = "own"
    revision: str = "REVISION"
    scope: str = "trajectory"
    deadline_s: float = 10.0

    async def verify(self, submissions):
        return [self._verdict(one) for one in submissions]

    def _verdict(self, one):
        said = "".join(passage.text for passage in one.passages if passage.kind == "policy")
        outcome = float(hashlib.sha256(said.encode()).digest()[0] % 2)
        return Verdict(
            trajectory_id=one.trajectory_id, verifier="own", revision=self.revision, scope="trajectory", outcome=outcome
        )
"""


@pytest.fixture
def own_verifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of the user's, which they edit between two commands."""
    (tmp_path / "module").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "module"))
    module = tmp_path / "module" / "own_verifier_of_segments.py"
    yield module
    sys.modules.pop(module.stem, None)


def write_verifier(module: Path, revision: str) -> None:
    module.write_text(OWN.replace("REVISION", revision))
    sys.modules.pop(module.stem, None)
    importlib.invalidate_caches()


@pytest.mark.training
def test_a_trained_run_goes_on_with_another_verifier_more_steps_and_another_batch(tmp_path: Path, own_verifier: Path):
    write_verifier(own_verifier, "1")
    run = trained(
        tmp_path / "run",
        small_rl(
            "run.steps=1",
            "evaluation.every=2",
            f'verifier.parts=[{{kind="custom", path="{own_verifier.stem}:Own"}}]',
        ),
    )
    write_verifier(own_verifier, "2")
    toml = run / "recipe.toml"
    for old, new in (
        ("\nsteps = 1\n", "\nsteps = 3\n"),
        ("batch_size = 16", "batch_size = 8"),
        ("easy = 0.2", "easy = 0.3"),
    ):
        assert old in toml.read_text()
        toml.write_text(toml.read_text().replace(old, new))
    with pytest.raises(RecipeError, match=r"^data.prompt_sources.* was .* and is .*--new-segment"):
        resume_run(run, Listener())
    assert resume_run(run, Listener(), new_segment="a second look").steps == 3
    folder = RunFolder.open(run)
    of_segment = {c.step: folder.manifest_of(c).segment is not None for c in folder.commits if c.kind == "step"}
    assert of_segment == {0: False, 1: False, 2: True, 3: True}
    stored = StoredRun(run)
    revisions = {
        step: {v.revision for g in stored.groups("train", step) for m in g.members for v in m.verdicts}
        for step in (1, 2, 3)
    }
    assert revisions == {1: {"1"}, 2: {"2"}, 3: {"2"}}
    assert [sum(len(g.members) for g in stored.groups("train", step)) for step in (1, 2, 3)] == [16, 8, 8]
    assert check(run).findings == ()


@pytest.mark.training
def test_the_command_says_what_differs_and_goes_on_when_told_why(tmp_path: Path):
    run = trained(tmp_path / "run", small_rl("run.steps=1", "evaluation.every=2"))
    toml = run / "recipe.toml"
    toml.write_text(toml.read_text().replace("\nsteps = 1\n", "\nsteps = 2\n"))
    refused = rollwright("resume", run)
    assert refused.code != 0 and "configuration.run.steps was 1 and is 2" in refused.err + refused.out
    done = rollwright("resume", run, "--new-segment", "one more step", "--json")
    assert done.code == 0, done.err
    assert RunFolder.open(run).manifest.segment is not None
