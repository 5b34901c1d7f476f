"""The tiny model in every world that ships: shown, sampled, trained; nothing but its own tokens gets a gradient."""

from pathlib import Path

import pytest

from rollwright.evidence import check, query
from rollwright.recipes.resolve import resolve
from rollwright.recipes.runs import TrainOrder, train_run
from rollwright.recipes.worlds import WORLDS
from tests.end_to_end.small import PARITY, Listener

SETTINGS = (
    "run.steps=2",
    "model.max_context_tokens=2048",
    "engine.max_context_tokens=2048",
    "model.hidden_size=48",
    "model.num_layers=1",
    "model.num_heads=1",
    "model.num_kv_heads=1",
    "model.head_size=48",
    "model.intermediate_size=64",
    "stages.warm_start.steps=40",
    "stages.warm_start.warmup_updates=0",
    "stages.warm_start.batch_size=8",
    "stages.warm_start.learning_rate=1e-2",
    "rollout.batch_size=16",
    "rollout.group_size=4",
    "rollout.max_turns=16",
    "rollout.max_turn_tokens=64",
    "rollout.max_episode_tokens=512",
    "tasks={kind='world', num_train=16, num_held_out=8}",
    "evaluation.tasks=4",
    PARITY.replace("[{", '[{kind="world"}, {', 1),
)
"""Its own reward, and one on top that a policy earns half of the time, so that groups have contrast."""


@pytest.mark.training
@pytest.mark.parametrize("name", WORLDS)
def test_the_tiny_model_trains_in_this_world_and_its_own_tokens_alone_have_receipts(name: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    resolved = resolve("tiny-agent", (f"environment={{kind='world', name='{name}'}}", *SETTINGS))
    heard = Listener()
    train_run(TrainOrder(resolved=resolved, run_dir=run, source=None, is_rollouts_only=False), heard)
    assert len(heard.steps) == 42
    assert check(run).findings == ()
    broken = query(run, "SELECT failure_cause FROM trajectories WHERE failure_cause IS NOT NULL LIMIT 1").rows
    assert not broken
    origins = query(
        run,
        "SELECT DISTINCT segments.origin FROM receipts JOIN segments USING (trajectory_id, segment) "
        "WHERE receipts.step > 40",
    ).rows
    assert tuple(origins) == (("policy",),)
    foreign = "SELECT 1 FROM segments WHERE origin IN ('tool', 'environment', 'task', 'user') LIMIT 1"
    assert query(run, foreign).rows
    assert query(run, "SELECT 1 FROM receipts WHERE step > 40 AND influence <> 0 LIMIT 1").rows
