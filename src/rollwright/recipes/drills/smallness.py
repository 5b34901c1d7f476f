"""Settings that make a recipe a matter of seconds, and leave its parts what they are."""

from collections.abc import Sequence

from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.recipes.config.model import FreshModelConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.config.tasks import JsonlTasksConfig

__all__ = ["RL_STEPS", "small_settings"]

RL_STEPS = 4
_MOST_LAG = 4
_GROUP = 4
_GROUPS = 2


def small_settings(recipe: RecipeConfig) -> Sequence[str]:
    """`key=value` for a run of a few steps, with a checkpoint at each; as many more as episodes may be old."""
    group = min(_GROUP, recipe.rollout.group_size)
    steps = RL_STEPS + 2 * min(recipe.runtime.max_lag, _MOST_LAG)
    settings = [
        f"run.steps={steps}",
        f"rollout.batch_size={_GROUPS * group}",
        f"rollout.group_size={group}",
        f"rollout.max_turn_tokens={min(recipe.rollout.max_turn_tokens, 24)}",
        f"rollout.max_episode_tokens={min(recipe.rollout.max_episode_tokens, 48)}",
        f"evaluation.every={steps}",
        "evaluation.tasks=2",
        "evaluation.samples=1",
        f"engine.num_slots={min(recipe.engine.num_slots, 16)}",
        f"runtime.concurrency={min(recipe.runtime.concurrency, 16)}",
        "runtime.checkpoint_every=1",
        "runtime.keep_checkpoints=3",
        "learner.warmup_updates=0",
    ]
    for number, stage in enumerate(recipe.stages):
        if isinstance(stage, SupervisedStageConfig):
            settings += [f"stages.{number}.{key}" for key in ("steps=1", "batch_size=4", "warmup_updates=0")]
    if not isinstance(recipe.tasks, JsonlTasksConfig):
        settings += [f"tasks.num_train={min(recipe.tasks.num_train, 64)}"]
        settings += [f"tasks.num_held_out={min(recipe.tasks.num_held_out, 16)}"]
    if isinstance(recipe.model, FreshModelConfig):
        settings += [
            "model.hidden_size=32",
            "model.num_layers=1",
            "model.num_heads=1",
            "model.num_kv_heads=1",
            "model.intermediate_size=64",
            "model.tokenizer_texts=50",
        ]
    return settings
