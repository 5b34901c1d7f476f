"""The learner of a run: one model through all stages, each stage with an optimizer of its own."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rollwright.recipes.config.learning import StageConfig, SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.record import Ids, WeightsManifest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from transformers import PreTrainedModel

    from rollwright.algorithms import Objective
    from rollwright.batches import ReferenceScores, StepBatch, UpdateOutcome, UpdatePlan
    from rollwright.learner.causal_learner import CausalLearner, LearnerSettings

__all__ = ["StagedLearner", "stage_settings"]


class StagedLearner:
    """A `runtime.Learner` whose optimizer is made anew where a stage begins."""

    def __init__(self, model: "PreTrainedModel", settings: "LearnerSettings", device: str = "cpu") -> None:
        """Start with the settings of the first stage.

        Args:
            model: moved to the device, in place, and trained there.
            settings: of the first stage.
            device: of the weights and of all that is made of them.
        """
        from rollwright.learner.causal_learner import make_learner
        from rollwright.learner.placement import move_model

        move_model(model, device)
        self._make = make_learner
        self._learner: CausalLearner = make_learner(model, settings)

    def begin(self, settings: "LearnerSettings", *, reads: frozenset[str]) -> None:
        """Begin a stage: a fresh optimizer, and a frozen reference where something reads one.

        Args:
            settings: of the stage.
            reads: streams that its objective or its metrics read.
        """
        self._learner = self._make(self._learner.model, settings)
        if "reference" in reads:
            self._learner.freeze_reference()

    def score_before_credit(self, draft: "StepBatch", objective: "Objective") -> "StepBatch":
        """The laid-out batch with the streams that the objective's credit reads."""
        return self._learner.score_before_credit(draft, objective)

    def train(
        self, batch: "StepBatch", objective: "Objective", *, first_update: int
    ) -> "Sequence[tuple[UpdatePlan, UpdateOutcome]]":
        """Make the updates of one step."""
        return self._learner.train(batch, objective, first_update=first_update).updates

    def score_reference(self, batch: "StepBatch") -> "ReferenceScores":
        """Log-probabilities of a step's trained tokens under the frozen reference."""
        return self._learner.score_reference(batch)

    def score_contexts(self, contexts: "Sequence[Ids]") -> "Sequence[NDArray[np.float32]]":
        """Log-probabilities over the vocabulary on fixed contexts, by the weights as they stand."""
        from rollwright.learner.probing import context_logprobs

        return context_logprobs(self._learner.scorer, contexts)

    def manifest(self, *, version: int, update: int) -> WeightsManifest:
        """Names, shapes and digests of the weights as they stand."""
        return self._learner.manifest(version=version, update=update)

    def weights(self) -> Mapping[str, object]:
        """The weights as they stand."""
        return self._learner.weights()

    def snapshot(self) -> Callable[[Path], None]:
        """Weights and training state as they stand: writes them into an empty folder."""
        return self._learner.snapshot().write

    def restore(self, folder: Path) -> None:
        """Read what a snapshot wrote; the stage's settings are those given before."""
        self._learner.restore(folder)


def stage_settings(stage: StageConfig, recipe: RecipeConfig) -> "LearnerSettings":
    """How the batches of a stage become updates."""
    from rollwright.learner.causal_learner import LearnerSettings
    from rollwright.learner.dense import Activations
    from rollwright.learner.models import Precision
    from rollwright.learner.optimizer import OptimizerSettings, Schedule, ScheduleShape

    learner = recipe.learner
    if isinstance(stage, SupervisedStageConfig):
        rate, shape, warmup, steps = stage.learning_rate, stage.schedule, stage.warmup_updates, stage.steps
        splits = (1, 1)
    else:
        rate, shape, warmup, steps = learner.learning_rate, learner.schedule, learner.warmup_updates, recipe.run.steps
        splits = (learner.num_minibatches, learner.num_epochs)
    schedule = Schedule(
        learning_rate=rate,
        shape=ScheduleShape(shape),
        warmup_updates=warmup,
        total_updates=steps * splits[0] * splits[1],
    )
    return LearnerSettings(
        optimizer=OptimizerSettings(
            schedule=schedule,
            beta1=learner.adam_beta1,
            beta2=learner.adam_beta2,
            epsilon=learner.adam_epsilon,
            weight_decay=learner.weight_decay,
            clip_norm=learner.max_grad_norm,
        ),
        token_budget=learner.micro_batch_tokens,
        num_minibatches=splits[0],
        num_epochs=splits[1],
        precision=Precision(learner.dtype),
        activations=Activations(learner.activations),
    )
