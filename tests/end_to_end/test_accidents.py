"""Graders that fail, tools that break, a full disk and Ctrl-C: counted, recorded, and never a reward."""

import asyncio
import os
import resource
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from rollwright.evidence import StoredRun, check, connect, table_hashes
from rollwright.recipes.resolve import Resolved, resolve
from rollwright.recipes.runs import TrainOrder, resume_run, train_run
from rollwright.runtime.errors import RunStoppedError
from rollwright.runtime.observers import StepReport
from tests.end_to_end.children import start_command
from tests.end_to_end.conftest import Finished
from tests.end_to_end.small import RECIPE, SMALL, THREE_STEPS, Listener, arguments, small


def verifier(name: str) -> str:
    """The setting that makes one of the parts the verifier."""
    return f'verifier.parts=[{{kind="custom", path="tests.end_to_end.parts:{name}"}}]'


def train(path: Path, *settings: str) -> Listener:
    heard = Listener()
    train_run(TrainOrder(resolved=small(*settings), run_dir=path, source=None, is_rollouts_only=False), heard)
    return heard


def ask(path: Path, sql: str) -> Sequence[tuple]:
    with connect(path) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize(("name", "cause"), [("broken", "grader_error"), ("hung", "timeout")])
def test_a_grader_that_fails_gives_no_reward_and_is_counted(tmp_path: Path, name: str, cause: str) -> None:
    run = tmp_path / "run"
    train(run, verifier(name))
    unscored = ask(
        run,
        """SELECT trajectory_id, reward, unscored_reason, error_cause, v.value, untrained_reason, num_kept
           FROM trajectories t JOIN verdicts v USING (trajectory_id) LEFT JOIN receipts r USING (trajectory_id)
           WHERE purpose = 'train' AND status <> 'ok'""",
    )
    assert len(unscored) >= 2
    assert {row[1:] for row in unscored} == {(None, cause, cause, None, "unscored", 0)}
    weights = ask(
        run,
        """SELECT sum(abs(w)) FROM (SELECT unnest(expand(token_weight)) AS w
           FROM receipts JOIN trajectories USING (trajectory_id) WHERE purpose = 'train' AND reward IS NULL)""",
    )
    assert weights == [(0.0,)]
    counted = ask(run, "SELECT sum(value) FROM metrics WHERE name = 'data/unscored' AND step > 3")
    assert counted == [(float(len({row[0] for row in unscored})),)]
    assert check(run).findings == ()


def test_a_grader_that_always_fails_leaves_a_run_without_a_score(tmp_path: Path) -> None:
    run = tmp_path / "run"
    child = start_command(["train", RECIPE, "--json", "--run-dir", run, *arguments(verifier("useless"))], tmp_path)
    ended = child.ended()
    assert ended.code == 0, ended.err
    assert ended.last["after"]["success"] is None
    assert ask(run, "SELECT count(*) FROM trajectories WHERE purpose <> 'demonstration' AND reward IS NOT NULL") == [
        (0,)
    ]
    assert ask(run, "SELECT count(*) FROM evaluations WHERE metric = 'success' AND value IS NOT NULL") == [(0,)]
    assert check(run).findings == ()


@pytest.fixture(scope="module")
def broken_tool(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Resolved]:
    """Three RL steps with a tool that breaks in most of the episodes that come to their end."""
    model = finished.path / "checkpoints" / "step-000003"
    kept = [setting for setting in SMALL if not setting.startswith(("model.", "stages."))]
    settings = (
        'stages=[{kind="rl", name="rl"}]',
        'environment={kind="custom", path="tests.end_to_end.parts:checking"}',
        f'model={{kind="local", path="{model}"}}',
    )
    path = tmp_path_factory.mktemp("accidents") / "broken_tool"
    resolved = resolve(RECIPE, (*settings, *kept, *THREE_STEPS))
    train_run(TrainOrder(resolved=resolved, run_dir=path, source=None, is_rollouts_only=False), Listener())
    return path, resolved


def test_an_episode_whose_tool_breaks_is_tried_again_and_then_counted(
    broken_tool: tuple[Path, Resolved],
) -> None:
    run, _ = broken_tool
    failed = ask(
        run,
        """SELECT group_id, slot, list(attempt ORDER BY attempt), list(lineage ORDER BY attempt),
             list(parent_trajectory_id ORDER BY attempt), list(trajectory_id ORDER BY attempt)
           FROM trajectories WHERE purpose = 'train' AND terminal_reason = 'infrastructure_failure' GROUP BY ALL""",
    )
    assert failed
    for _, _, attempts, lineage, parents, names in failed:
        assert attempts == [0, 1, 2]
        assert lineage == [None, "retry_of", "retry_of"]
        assert parents == [None, names[0], names[1]]
    said = ask(
        run,
        """SELECT DISTINCT failure_class, reward, unscored_reason FROM trajectories
           WHERE terminal_reason = 'infrastructure_failure'""",
    )
    assert said == [("infrastructure", None, "infrastructure_failure")]
    (cause,) = ask(
        run, "SELECT failure_cause FROM trajectories WHERE terminal_reason = 'infrastructure_failure' LIMIT 1"
    )
    assert "tool calculator failed: RuntimeError: the tool broke" in cause[0]
    assert ask(
        run,
        """SELECT count(*) FROM receipts JOIN trajectories USING (trajectory_id)
               WHERE terminal_reason = 'infrastructure_failure'""",
    ) == [(0,)]
    states = dict(ask(run, "SELECT state, count(*) FROM slots GROUP BY ALL"))
    assert states["failed"] == len(failed)
    assert states["failed"] + states["trained"] + states.get("filtered", 0) == sum(states.values())
    assert check(run).findings == ()


def test_a_run_with_slots_that_failed_for_good_resumes(broken_tool: tuple[Path, Resolved], tmp_path: Path) -> None:
    path, resolved = broken_tool
    run = tmp_path / "run"
    with pytest.raises(RunStoppedError):
        train_run(
            TrainOrder(resolved=resolved, run_dir=run, source=None, is_rollouts_only=False),
            _Interrupting(1, 1),
        )
    resume_run(run, Listener())
    assert table_hashes(run) == table_hashes(path)


def test_ctrl_c_once_finishes_the_step_and_the_resumed_run_is_the_same(finished: Finished, tmp_path: Path) -> None:
    run = tmp_path / "stopped"
    order = TrainOrder(resolved=small(*THREE_STEPS), run_dir=run, source=None, is_rollouts_only=False)
    listener = _Interrupting(2, 1)
    with pytest.raises(RunStoppedError, match=r"stopped after step [345], which is saved"):
        train_run(order, listener)
    assert any("press Ctrl-C again" in sentence for sentence in listener.warnings)
    stopped = [report.step for report in listener.steps]
    assert stopped == list(range(1, len(stopped) + 1))
    resumed = Listener()
    resume_run(run, resumed)
    assert [*stopped, *(report.step for report in resumed.steps)] == [1, 2, 3, 4, 5, 6]
    assert table_hashes(run) == table_hashes(finished.path)


def test_ctrl_c_twice_stops_at_once_and_loses_nothing_that_was_saved(finished: Finished, tmp_path: Path) -> None:
    run = tmp_path / "stopped"
    order = TrainOrder(resolved=small(*THREE_STEPS), run_dir=run, source=None, is_rollouts_only=False)
    listener = _Interrupting(4, 2)
    with pytest.raises(asyncio.CancelledError):
        train_run(order, listener)
    assert [report.step for report in listener.steps][:4] == [1, 2, 3, 4]
    assert len(listener.steps) <= 5
    assert max(StoredRun(run).steps) >= 4
    resume_run(run, Listener())
    assert table_hashes(run) == table_hashes(finished.path)


def test_ctrl_c_at_a_terminal_ends_in_a_sentence(tmp_path: Path) -> None:
    run = tmp_path / "run"
    child = start_command(["train", RECIPE, "--json", "--run-dir", run, *arguments("run.steps=50")], tmp_path)
    assert child.wait_for(lambda: child.has_said('"stage": "rl", "step": 4'))
    child.interrupt()
    ended = child.ended()
    assert ended.code == 130
    assert "is saved; `rollwright resume" in ended.last["error"]
    child = start_command(["resume", run, "--json"], tmp_path)
    assert child.wait_for(lambda: child.has_said('"event": "step"'))
    child.interrupt()
    child.wait_for(lambda: child.has_said("press Ctrl-C again"))
    child.interrupt()
    ended = child.ended()
    assert ended.code == 130
    assert ended.err == ""
    assert len(ended.lines) > 1
    assert check(run).findings == ()


@pytest.mark.parametrize("limit_bytes", [30_000, 150_000])
def test_a_full_disk_ends_in_a_sentence_and_what_was_saved_goes_on(
    finished: Finished, tmp_path: Path, limit_bytes: int
) -> None:
    run = tmp_path / "run"
    with pytest.raises(RunStoppedError):
        train_run(
            TrainOrder(resolved=small(*THREE_STEPS), run_dir=run, source=None, is_rollouts_only=False),
            _Interrupting(4, 1),
        )
    limit = {30_000: _small_disk, 150_000: _larger_disk}[limit_bytes]
    ended = start_command(["resume", run, "--json"], tmp_path, limit).ended()
    assert ended.code == 1
    assert "make room" in ended.last["error"]
    assert "`rollwright resume` goes on" in ended.last["error"]
    assert check(run).findings == ()
    resume_run(run, Listener())
    assert table_hashes(run) == table_hashes(finished.path)


def _small_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))


def _larger_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))


class _Interrupting(Listener):
    """Sends SIGINT so many times once a step is done, as a person at a keyboard does."""

    def __init__(self, step: int, times: int) -> None:
        super().__init__()
        self._step = step
        self._times = times

    def step_finished(self, report: StepReport) -> None:
        super().step_finished(report)
        if report.step == self._step:
            for _ in range(self._times):
                os.kill(os.getpid(), signal.SIGINT)
