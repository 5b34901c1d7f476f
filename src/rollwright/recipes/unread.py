"""Keys that nothing reads beside certain others: written there, they are refused rather than ignored."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rollwright.recipes.config import RecipeConfig
from rollwright.recipes.config.tasks import JsonlTasksConfig
from rollwright.recipes.flat import Plain
from rollwright.recipes.keys import fields_at

__all__ = ["Unread", "unread_keys"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A key that is not read, and the key that decides so."""

    key: str
    decided_by: str
    because: str
    """When it would be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    keys: tuple[str, ...]
    decided_by: str
    is_read: Callable[[RecipeConfig], bool]
    because: str


def _has_stage(kind: str) -> Callable[[RecipeConfig], bool]:
    return lambda recipe: any(stage.kind == kind for stage in recipe.stages)


def _is_demonstrated(recipe: RecipeConfig) -> bool:
    return _has_stage("supervised")(recipe) or recipe.model.kind == "fresh"


_RULES = (
    _Rule(
        keys=("engine.mode",),
        decided_by="engine.kind",
        is_read=lambda recipe: recipe.engine.kind == "embedded",
        because='engine.kind is "embedded"',
    ),
    _Rule(
        keys=("engine.python", "engine.eager", "engine.cache_gib", "engine.gpu_memory_share"),
        decided_by="engine.kind",
        is_read=lambda recipe: recipe.engine.kind == "vllm",
        because='engine.kind is "vllm"',
    ),
    _Rule(
        keys=("objective.kl_estimator", "objective.kl_place", "objective.kl_target"),
        decided_by="objective.kl_coefficient",
        is_read=lambda recipe: recipe.objective.kl_coefficient > 0,
        because="objective.kl_coefficient is above 0",
    ),
    _Rule(
        keys=("objective.kl_horizon",),
        decided_by="objective.kl_target",
        is_read=lambda recipe: recipe.objective.kl_target is not None,
        because="objective.kl_target is given",
    ),
    _Rule(
        keys=("objective.entropy_step", "objective.entropy_cap"),
        decided_by="objective.entropy_target",
        is_read=lambda recipe: recipe.objective.entropy_target is not None,
        because="objective.entropy_target is given",
    ),
    _Rule(
        keys=("objective.entropy_coefficient",),
        decided_by="objective.entropy_target",
        is_read=lambda recipe: recipe.objective.entropy_target is None,
        because="objective.entropy_target is left out",
    ),
    _Rule(
        keys=("objective.success_at",),
        decided_by="objective.positive_nll_coefficient",
        is_read=lambda recipe: recipe.objective.positive_nll_coefficient > 0,
        because="objective.positive_nll_coefficient is above 0",
    ),
    _Rule(
        keys=("verifier.answer_marker",),
        decided_by="verifier.answer_form",
        is_read=lambda recipe: recipe.verifier.answer_form == "marker",
        because='verifier.answer_form is "marker"',
    ),
    _Rule(
        keys=("tasks.held_out_share",),
        decided_by="tasks.held_out",
        is_read=lambda recipe: not isinstance(recipe.tasks, JsonlTasksConfig) or recipe.tasks.held_out is None,
        because="tasks.held_out is left out",
    ),
    _Rule(
        keys=("evaluation.top_p",),
        decided_by="evaluation.temperature",
        is_read=lambda recipe: recipe.evaluation.temperature > 0,
        because="evaluation.temperature is above 0",
    ),
    _Rule(
        keys=("environment.tool_share",),
        decided_by="stages",
        is_read=_is_demonstrated,
        because="a stage of kind supervised or a model of kind fresh takes demonstrations",
    ),
    _Rule(
        keys=(
            "run.steps",
            "learner.learning_rate",
            "learner.schedule",
            "learner.warmup_updates",
            "learner.num_minibatches",
            "learner.num_epochs",
            "evaluation.every",
            "alarms",
        ),
        decided_by="stages",
        is_read=_has_stage("rl"),
        because="there is a stage of kind rl",
    ),
)


def unread_keys(recipe: RecipeConfig, written: Mapping[str, Plain]) -> Iterator[Unread]:
    """Keys that were written with another value than their default, and that nothing reads in this recipe.

    Args:
        recipe: as resolved.
        written: dotted key to value, of what a person wrote.
    """
    for rule in _RULES:
        if rule.is_read(recipe):
            continue
        for key in rule.keys:
            fields = fields_at(RecipeConfig, key.split("."))
            if any(one.startswith(f"{key}.") for one in written):  # a list of tables is written table by table
                yield Unread(key=key, decided_by=rule.decided_by, because=rule.because)
            elif key in written and all(written[key] != field.get_default() for field in fields):
                yield Unread(key=key, decided_by=rule.decided_by, because=rule.because)
