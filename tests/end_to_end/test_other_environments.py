"""Environments of other packages, unchanged, in a run: our driver's tokens, their rules, two updates."""

import sys
from pathlib import Path

import pytest

from rollwright.evidence import query
from rollwright.recipes.runs import TrainOrder, train_run
from tests.end_to_end.small import PARITY, Listener, small_rl

FOREIGN = Path(__file__).parents[1] / "environments" / "foreign"
WORLD_AND_PARITY = PARITY.replace("[{", '[{kind="world"}, {', 1)
"""Their own reward, and one on top that an untaught model earns half of the time, so that groups have contrast."""
ROOM = (
    "model.max_context_tokens=1536",
    "engine.max_context_tokens=1536",
    "rollout.max_turns=2",
    "rollout.batch_size=32",
    "rollout.group_size=8",
    "rollout.max_turn_tokens=240",  # Long enough that some turns end by themselves and the game goes on.
    "rollout.max_episode_tokens=480",
    "tasks={kind='world', num_train=16, num_held_out=8}",
    "evaluation.tasks=4",
    WORLD_AND_PARITY,
)


def two_updates(folder: Path, environment: str) -> None:
    """Train, and look at what the learner took."""
    resolved = small_rl(*ROOM, f"environment={environment}")
    heard = Listener()
    train_run(TrainOrder(resolved=resolved, run_dir=folder, source=None, is_rollouts_only=False), heard)
    assert len(heard.steps) == 2
    (trained,) = query(folder, 'SELECT count(DISTINCT "update") FROM receipts WHERE untrained_reason IS NULL').rows
    assert trained == (2,)
    assert query(folder, "SELECT 1 FROM segments WHERE origin IN ('environment', 'user') LIMIT 1").rows
    broken = query(folder, "SELECT failure_cause FROM trajectories WHERE failure_cause IS NOT NULL").rows
    assert not broken


@pytest.mark.training
def test_a_game_of_textarena_trains_for_two_updates_unchanged(tmp_path: Path) -> None:
    two_updates(tmp_path / "run", "{kind='world', name='textarena', arguments={game='TowerOfHanoi-v0'}}")


@pytest.mark.training
def test_an_environment_of_verifiers_trains_for_two_updates_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FOREIGN))
    two_updates(tmp_path / "run", "{kind='world', name='verifiers', arguments={taskset='rw_guess'}}")
    assert "rw_guess" in sys.modules
