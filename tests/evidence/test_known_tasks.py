"""What a writer remembers of the tasks that it stored: bounded, and the same after it came back."""

import dataclasses

from rollwright.evidence import CommitRows, RunFolder, query
from rollwright.evidence.known_tasks import KnownTasks, read_known_tasks
from tests.evidence.runs import START, manifest, scored_trajectory, task


def asking(number: int, *, step: int) -> CommitRows:
    scored = scored_trajectory(group_id=step, slot=0)
    trajectory = dataclasses.replace(scored.trajectory, task=task(number))
    return CommitRows(kind="step", step=step, trajectories=[dataclasses.replace(scored, trajectory=trajectory)])


def test_never_more_tasks_are_kept_than_the_limit_and_the_oldest_go_first():
    known = KnownTasks(limit=3)
    for number in range(1000):
        known.add([str(number)])
        assert len(known) <= 3
    assert [str(n) in known for n in (996, 997, 998, 999)] == [False, True, True, True]


def test_a_writer_that_comes_back_knows_the_tasks_that_one_that_went_on_knows(tmp_path):
    asked = [0, 1, 2, 0, 3, 4, 0, 5]
    with RunFolder.create(tmp_path / "run", manifest(), "") as folder:
        for step, number in enumerate(asked, start=1):
            folder.commit(asking(number, step=step), at=START)
        stored = [0, 1, 2, 3, 4, 5]
        for limit in range(1, 8):
            went_on = KnownTasks(limit)
            for number in stored:
                went_on.add([task(number).task_id])
            came_back = read_known_tasks(folder.path, folder.commits, limit)
            assert [task(n).task_id in came_back for n in stored] == [task(n).task_id in went_on for n in stored]


def test_a_task_that_returns_in_a_later_step_is_stored_once_also_by_a_writer_that_came_back(tmp_path):
    with RunFolder.create(tmp_path / "run", manifest(), "") as folder:
        folder.commit(asking(0, step=1), at=START)
        folder.commit(asking(0, step=2), at=START)
    with RunFolder.open(tmp_path / "run", "write") as folder:
        folder.commit(asking(0, step=3), at=START)
        shards = [shard.num_rows for commit in folder.commits for shard in commit.shards if shard.table == "tasks"]
    assert shards == [1]
    assert query(tmp_path / "run", "SELECT task_id FROM tasks").rows == ((task(0).task_id,),)
