"""What is read from a run of several segments is right for the commits of each."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from rollwright.evidence import Manifest, RunFolder, SegmentSection, check, connect
from rollwright.record import EligibleRow
from tests.evidence.runs import START, evaluation, manifest, trained_step

KL = EligibleRow(model="policy", component="kl", origin="policy", policy="policy")


def following(folder: RunFolder, now: Manifest) -> Manifest:
    """As the manifest of the next segment."""
    return replace(
        now,
        segment=SegmentSection(
            number=len(folder.manifests) + 1,
            reason="a test",
            opened_at=START,
            after_step=1,
            previous_sha256=folder.newest_manifest_sha256,
            differences=(),
        ),
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A step with full receipts, then a segment in which another component is trained and sums alone are kept."""
    began = manifest()
    with RunFolder.create(tmp_path / "run", began, "") as folder:
        folder.commit(evaluation(0), at=START)
        folder.commit(trained_step(1), at=START)
        folder.open_segment(following(folder, replace(began, receipts="sums", eligible=(began.eligible[0], KL))))
        folder.commit(trained_step(2), at=START)
    return tmp_path / "run"


def test_what_any_segment_trains_is_eligible_and_each_commit_keeps_what_its_segment_keeps(run: Path):
    folder = RunFolder.open(run)
    assert folder.eligible == (*manifest().eligible, KL)
    assert folder.retention == "sums"
    with connect(run) as connection:
        listed = connection.execute("SELECT component FROM eligible ORDER BY component").fetchall()
        kept = connection.execute(
            "SELECT step, count(advantage) > 0 FROM receipts GROUP BY step ORDER BY step"
        ).fetchall()
    assert listed == [("kl",), ("nll",), ("policy_gradient",)]
    assert kept == [(1, True), (2, False)]
    assert check(run).findings == ()


def test_each_commit_names_the_commit_and_the_manifest_before_it(run: Path):
    folder = RunFolder.open(run)
    files = [run / "commits" / f"{c.number:06d}-{c.kind}.json" for c in folder.commits]
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    assert [c.previous_sha256 for c in folder.commits] == [None, *digests[:-1]]
    assert [folder.manifest_of(c).segment is None for c in folder.commits] == [True, True, False]


def test_the_chain_holds_over_commits_that_were_abandoned(run: Path):
    with RunFolder.open(run, "write") as folder:
        folder.commit(evaluation(1, kind="evaluation", group_id=901), at=START)
        folder.abandon_after(2)
        assert [c.number for c in folder.commits] == [1, 2, 4]
        folder.commit(trained_step(2), at=START)
    with RunFolder.open(run, "write") as folder:
        assert [c.number for c in folder.commits] == [1, 2, 4, 5]
