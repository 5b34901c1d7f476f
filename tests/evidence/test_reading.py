"""A stored run gives back the records it was made of."""

import dataclasses

import pytest

from rollwright.evidence import CommitRows, EvidenceError, RunFolder, StoredRun, read_groups
from rollwright.record import ScoredTrajectory, Verdict
from rollwright.record.codec import ScoredVerdict
from tests.evidence.runs import START, evaluation, ledger_row, scored_trajectory, trained_step, written_run
from tests.record.strategies import same


def test_the_groups_of_a_step_are_those_it_was_trained_on(tmp_path):
    path = written_run(tmp_path / "run", steps=3)
    for step in (1, 2, 3):
        groups = read_groups(path, "train", step)
        members = [m for g in groups for m in g.members]
        assert same(members, list(trained_step(step).trajectories))
        assert [(g.group_id, g.size) for g in groups] == [(2 * step - 2, 2), (2 * step - 1, 2)]


def test_a_group_keeps_its_size_without_the_slot_that_failed_for_good(tmp_path):
    path = written_run(tmp_path / "run", steps=0)
    good = scored_trajectory(group_id=0, slot=0)
    failed = scored_trajectory(group_id=0, slot=1, outcome="infrastructure")
    with RunFolder.open(path, "write") as folder:
        ledger = [
            ledger_row(good, "in_flight", step=1),
            ledger_row(failed, "in_flight", step=1),
            ledger_row(failed, "failed", step=1, rule="max_attempts"),
            ledger_row(good, "ready", step=1),
            ledger_row(good, "trained", step=1),
        ]
        folder.commit(CommitRows(kind="step", step=1, trajectories=[good, failed], ledger=ledger), at=START)
    [group] = read_groups(path, "train", 1)
    assert (group.size, [m.trajectory.slot for m in group.members]) == (2, [0])


def test_a_late_group_is_read_in_the_step_that_trained_it(tmp_path):
    """Its trajectories stand in an earlier commit."""
    path = written_run(tmp_path / "run", steps=1)
    waiting = scored_trajectory(group_id=50, slot=0)
    with RunFolder.open(path, "write") as folder:
        early = [ledger_row(waiting, "in_flight", step=2), ledger_row(waiting, "ready", step=2)]
        folder.commit(CommitRows(kind="step", step=2, trajectories=[waiting], ledger=early), at=START)
        folder.commit(CommitRows(kind="step", step=3, ledger=[ledger_row(waiting, "trained", step=3)]), at=START)
    stored = StoredRun(path)
    assert stored.groups("train", 2) == ()
    [group] = stored.groups("train", 3)
    assert same(group.members, (waiting,))


def test_what_was_only_sampled_is_what_its_step_holds_and_no_step_trained(tmp_path):
    path = written_run(tmp_path / "run", steps=1)
    held, ahead = scored_trajectory(group_id=50, slot=0), scored_trajectory(group_id=51, slot=0)
    rows = [ledger_row(each, state, step=2) for each in (held, ahead) for state in ("in_flight", "ready")]
    with RunFolder.open(path, "write") as folder:
        folder.commit(CommitRows(kind="step", step=2, trajectories=[held], ledger=rows), at=START)
    stored = StoredRun(path)
    [group] = stored.sampled(2)
    assert same(group.members, (held,))
    assert stored.sampled(1) == ()


def test_demonstrations_and_evaluations_are_read_by_their_commit(tmp_path):
    path = written_run(tmp_path / "run", steps=0)
    shown = [scored_trajectory(group_id=i, slot=0, purpose="demonstration", outcome="demonstration") for i in (3, 4)]
    with RunFolder.open(path, "write") as folder:
        folder.commit(CommitRows(kind="step", step=1, trajectories=shown), at=START)
    groups = read_groups(path, "demonstration", 1)
    assert [(g.group_id, g.size, len(g.members)) for g in groups] == [(3, 1, 1), (4, 1, 1)]
    assert same([m for g in groups for m in g.members], shown)
    [held_out] = read_groups(path, "evaluation", 0)
    assert same(held_out.members, tuple(evaluation(0).trajectories))


def test_of_a_slot_that_was_attempted_again_the_last_attempt_is_read(tmp_path):
    path = written_run(tmp_path / "run", steps=0)
    tries = [
        scored_trajectory(group_id=7, slot=slot, attempt=attempt, purpose="evaluation", outcome=outcome)
        for slot, attempt, outcome in ((0, 0, "infrastructure"), (0, 1, 1.0), (1, 0, 0.0))
    ]
    with RunFolder.open(path, "write") as folder:
        folder.commit(CommitRows(kind="step", step=1, trajectories=tries), at=START)
    [held_out] = read_groups(path, "evaluation", 1)
    assert held_out.size == 2
    assert same(held_out.members, tuple(tries[1:]))


def test_receipts_metrics_and_evaluations_come_back(tmp_path):
    path = written_run(tmp_path / "run", steps=2)
    stored = StoredRun(path)
    assert stored.steps == (0, 1, 2)
    assert same(stored.receipts(2), tuple(trained_step(2).receipts))
    assert same(stored.metrics(2), tuple(trained_step(2).metrics))
    assert same(stored.evaluations(), tuple(evaluation(0).evaluations))
    assert [row.seq for row in stored.ledger] == list(range(24))


def test_a_second_scoring_leaves_the_first_as_it_was(tmp_path):
    path = written_run(tmp_path / "run", steps=1)
    name = trained_step(1).trajectories[0].trajectory_id
    again = Verdict(trajectory_id=name, verifier="strict", revision="2", scope="trajectory", outcome=0.0)
    with RunFolder.open(path, "write") as folder:
        rows = CommitRows(kind="score", step=1, rescored=[ScoredVerdict(scoring=1, verdict=again)])
        assert folder.commit(rows, at=START).kind == "score"
    [scored] = StoredRun(path).trajectories([name])
    assert same(scored, trained_step(1).trajectories[0])


def test_turn_rewards_of_the_environment_stay_apart_from_verdicts(tmp_path):
    path = written_run(tmp_path / "run", steps=0)
    base = scored_trajectory(group_id=0, slot=0)
    paid = Verdict(
        trajectory_id=base.trajectory_id, verifier="calculator", revision="env-1", scope="turn", outcome=0.25
    )
    made: ScoredTrajectory = dataclasses.replace(
        base, trajectory=dataclasses.replace(base.trajectory, turn_rewards=(paid,))
    )
    with RunFolder.open(path, "write") as folder:
        folder.commit(CommitRows(kind="step", step=1, trajectories=[made]), at=START)
    assert same(StoredRun(path).trajectories([base.trajectory_id]), (made,))


def test_what_the_environment_paid_is_stored_once_where_a_scorer_repeats_it(tmp_path):
    path = written_run(tmp_path / "run", steps=0)
    base = scored_trajectory(group_id=0, slot=0)
    paid = Verdict(
        trajectory_id=base.trajectory_id, verifier="calculator", revision="env-1", scope="turn", outcome=0.25
    )
    trajectory = dataclasses.replace(base.trajectory, turn_rewards=(paid,))
    repeated = dataclasses.replace(base, trajectory=trajectory, verdicts=(paid, *base.verdicts))
    with RunFolder.open(path, "write") as folder:
        folder.commit(CommitRows(kind="step", step=1, trajectories=[repeated]), at=START)
    [back] = StoredRun(path).trajectories([base.trajectory_id])
    assert same(back, dataclasses.replace(repeated, verdicts=base.verdicts))


def test_what_the_run_does_not_have_is_named(tmp_path):
    stored = StoredRun(written_run(tmp_path / "run"))
    with pytest.raises(EvidenceError, match="no step 9; it has steps 0 to 2"):
        stored.groups("train", 9)
    with pytest.raises(EvidenceError, match="no trajectory t9"):
        stored.trajectories(["t9"])
