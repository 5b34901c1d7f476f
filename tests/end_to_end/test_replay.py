"""A run is trained again by its own schedule: the same tokens, the same losses, the same weights."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from rollwright.evidence import RunFolder, StoredRun, query
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.replays import replay_run
from rollwright.recipes.runs import TrainOrder, resume_run, train_run
from rollwright.runtime.errors import ReplayError
from rollwright.runtime.observers import RunStarted
from tests.end_to_end.children import start_command
from tests.end_to_end.small import Listener, commits_of, kill, small, small_rl, start, wait_for

ASYNC = ("run.steps=6", "evaluation.every=3", "runtime.max_lag=2")


def weights(path: Path) -> dict[str, np.ndarray]:
    return load_file(max((path / "checkpoints").iterdir()) / "model.safetensors")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "run"
    train_run(TrainOrder(resolved=small(*ASYNC), run_dir=path, source=None, is_rollouts_only=False), Listener())
    return path


def test_an_asynchronous_run_trains_tokens_of_older_versions_and_none_beyond_its_bound(trained: Path) -> None:
    asked = (
        "SELECT ledger.step - 1 - min(segments.policy_version) FROM ledger JOIN segments USING (trajectory_id) "
        "WHERE ledger.state = 'trained' AND segments.origin = 'policy' GROUP BY trajectory_id, ledger.step"
    )
    lags = {lag for (lag,) in query(trained, asked).rows}
    assert lags <= {0, 1, 2} and lags & {1, 2}


def test_an_asynchronous_run_replays_to_its_own_weights(trained: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    child = start_command(["replay", trained, "--json", "--run-dir", again], tmp_path).ended()
    assert child.code == 0, child.err
    assert (child.last["is_equal"], child.last["steps"]) == (True, 9)
    before, after = weights(trained), weights(again)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    for step in StoredRun(trained).steps[1:]:
        stored, replayed = (
            [m.value for m in StoredRun(path).metrics(step) if m.name in {"policy/loss", "policy/grad_norm"}]
            for path in (trained, again)
        )
        assert len(stored) > 1 and stored == replayed


@pytest.fixture(scope="module")
def unlucky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps of an environment that met accidents, in training and in evaluations; it meets none any more."""
    folder = tmp_path_factory.mktemp("unlucky")
    bad_luck = folder / "bad-luck"
    bad_luck.touch()
    named = f'{{kind="custom", path="tests.end_to_end.unlucky:unlucky", arguments={{bad_luck="{bad_luck}"}}}}'
    resolved = small_rl(f"environment={named}", "rollout.batch_size=8", "evaluation.tasks=4")
    path = folder / "run"
    train_run(TrainOrder(resolved=resolved, run_dir=path, source=None, is_rollouts_only=False), Listener())
    bad_luck.unlink()
    return path


def test_a_run_whose_episodes_were_attempted_again_replays_to_its_own_weights(unlucky: Path, tmp_path: Path) -> None:
    retried = query(unlucky, "SELECT DISTINCT purpose FROM trajectories WHERE lineage = 'retry_of' ORDER BY 1").rows
    assert retried == (("evaluation",), ("train",))
    result = replay_run(unlucky, tmp_path / "again", Listener())
    assert (result.is_equal, result.steps) == (True, 2)


def test_a_replay_of_a_run_that_was_gone_on_with_meanwhile_compares_nothing(unlucky: Path, tmp_path: Path) -> None:
    run, again = tmp_path / "run", tmp_path / "again"
    shutil.copytree(unlucky, run)
    shutil.rmtree(max((run / "checkpoints").iterdir()))

    class GoingOn(Listener):
        """Goes on with the run that is replayed, as `resume` would."""

        def run_started(self, report: RunStarted) -> None:
            super().run_started(report)
            with RunFolder.open(run, "write") as folder:
                chosen = folder.newest_checkpoint().chosen
                assert chosen is not None and chosen.step == 1
                folder.abandon_after(chosen.commit)
                shutil.rmtree(chosen.path)

    heard = GoingOn()
    with pytest.raises(RecipeError, match=f"another process went on with {run} while it was replayed"):
        replay_run(run, again, heard)
    assert [warning for warning in heard.warnings if "behind its newest checkpoint, that of step 1" in warning]
    assert StoredRun(again).steps == (0, 1)


def test_a_replay_that_draws_other_tokens_ends_at_the_first_of_them(trained: Path, tmp_path: Path) -> None:
    order = TrainOrder(
        resolved=small(*ASYNC, "run.seed=1"),
        run_dir=tmp_path / "other",
        source=None,
        is_rollouts_only=False,
        follow=trained,
    )
    with pytest.raises(ReplayError, match=r"differs first in trajectory t\d+-\d+-0, segment \d+ .*stored"):
        train_run(order, Listener())


def test_a_killed_replay_is_not_resumed_but_begun_anew(trained: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    process = start("replay", trained, "--json", "--run-dir", again)
    wait_for(process, lambda: len(commits_of(again)) > 0)
    kill(process)
    with pytest.raises(RecipeError, match=f"{again} replays .*delete .*rollwright replay {trained}"):
        resume_run(again, Listener())
    with pytest.raises(RecipeError, match=f"{again} already holds a run.*--run-dir"):
        replay_run(trained, again, Listener())
