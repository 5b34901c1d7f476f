"""Games of commands in a run: returns that are never positive, and turns compared where states are equal."""

from pathlib import Path
from typing import Any

import pytest

from rollwright.evidence import query
from rollwright.recipes.runs import TrainOrder, train_run
from tests.end_to_end.small import Listener, small

ROOM = (
    "model.max_context_tokens=640",
    "engine.max_context_tokens=640",
    "rollout.max_turns=8",
    "rollout.max_turn_tokens=16",
    "rollout.max_episode_tokens=128",
    "tasks={kind='world', num_train=32, num_held_out=8}",
    "evaluation.tasks=4",
    "stages.warm_start.steps=20",
    "stages.warm_start.learning_rate=1e-2",
)


def asked(run: Path, sql: str) -> Any:
    """The rows of a query."""
    return query(run, sql).rows


def trained(folder: Path, *settings: str) -> Path:
    """Train for two updates after a short warm start."""
    heard = Listener()
    resolved = small(*ROOM, *settings)
    train_run(TrainOrder(resolved=resolved, run_dir=folder, source=None, is_rollouts_only=False), heard)
    assert len(heard.steps) == 22
    return folder


@pytest.mark.training
@pytest.mark.row("S461")
def test_a_game_whose_rewards_are_never_positive_trains_and_reports_its_mean_return(tmp_path: Path) -> None:
    run = trained(
        tmp_path / "run",
        "environment={kind='world', name='network'}",
        "verifier.parts=[{kind='world'}]",
        "verifier.success_threshold=-6.0",
    )
    rewards = [value for (value,) in asked(run, "SELECT reward FROM trajectories WHERE purpose = 'train'")]
    assert rewards
    assert max(rewards) < 0
    (scored,) = asked(run, "SELECT value FROM evaluations WHERE metric = 'reward' ORDER BY step DESC LIMIT 1")
    assert scored[0] < -5
    assert asked(run, 'SELECT count(DISTINCT "update") FROM receipts WHERE step > 20 AND influence <> 0')[0][0] > 0


@pytest.mark.training
def test_turns_from_equal_states_get_credit_of_their_own_and_observations_get_none(tmp_path: Path) -> None:
    run = trained(
        tmp_path / "run",
        "environment={kind='world', name='text_world', arguments={max_turns=6, invalid_reward=-0.1}}",
        "verifier.parts=[{kind='world'}]",
        "objective={kind='gigpo', denominator='token_mean'}",
    )
    shared = asked(
        run,
        "SELECT count(*) FROM (SELECT t.group_id, s.state_hash "
        "FROM segments s JOIN trajectories t USING (trajectory_id) "
        "WHERE t.purpose = 'train' AND s.state_hash IS NOT NULL GROUP BY ALL HAVING count(*) > 1)",
    )
    assert shared[0][0] > 0
    moved = asked(run, "SELECT max(value) FROM metrics WHERE name = 'mask/observation_grad'")
    assert moved[0][0] == 0
