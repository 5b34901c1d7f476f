"""A whole recipe: the sections that a person writes."""

from collections.abc import Sequence
from typing import Any, cast

from pydantic import Field, field_validator, model_validator

from rollwright.recipes.config.alarms import AlarmConfig
from rollwright.recipes.config.evaluation import EvaluationConfig
from rollwright.recipes.config.exporters import ExporterConfig
from rollwright.recipes.config.gates import EvaluationGateConfig, GateConfig, refuse_contradictions
from rollwright.recipes.config.learning import (
    EvidenceConfig,
    LearnerConfig,
    RlStageConfig,
    RunConfig,
    RuntimeConfig,
    StageConfig,
)
from rollwright.recipes.config.model import FreshModelConfig, ModelConfig
from rollwright.recipes.config.objective import ObjectiveConfig
from rollwright.recipes.config.sampling import EngineConfig, RolloutConfig
from rollwright.recipes.config.strict import StrictConfig
from rollwright.recipes.config.tasks import TasksConfig
from rollwright.recipes.config.world import EnvironmentConfig, VerifierConfig

__all__ = ["RecipeConfig"]


class RecipeConfig(StrictConfig):
    """Everything that decides a run; stored in its folder as resolved."""

    run: RunConfig
    model: ModelConfig
    tasks: TasksConfig
    environment: EnvironmentConfig
    verifier: VerifierConfig = VerifierConfig()
    engine: EngineConfig = EngineConfig()
    rollout: RolloutConfig = RolloutConfig()
    objective: ObjectiveConfig
    learner: LearnerConfig = LearnerConfig()
    runtime: RuntimeConfig = RuntimeConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    evidence: EvidenceConfig = EvidenceConfig()
    stages: tuple[StageConfig, ...] = Field(default=(RlStageConfig(),), min_length=1)
    gates: tuple[GateConfig, ...] = ()
    """Conditions on evidence, fixed before the run; a checkpoint is promoted only where all of them passed."""
    alarms: tuple[AlarmConfig, ...] = ()
    """What is watched in the steps of the RL stage."""
    exporters: tuple[ExporterConfig, ...] = ()
    """Where metrics are sent besides the run's folder; no part of what the run is."""

    @field_validator("exporters", mode="before")
    @classmethod
    def _by_kind(cls, exporters: Any) -> Any:  # noqa: ANN401 - pydantic hands over what the person wrote
        """A service's name alone stands for the service with its defaults."""
        if not isinstance(exporters, list | tuple):
            return exporters
        given = cast("Sequence[object]", exporters)
        return tuple({"kind": one} if isinstance(one, str) else one for one in given)

    @model_validator(mode="after")
    def _sections_agree(self) -> "RecipeConfig":
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError(f"stages are named {names}; each needs a name of its own")
        if sum(stage.kind == "rl" for stage in self.stages) > 1:
            raise ValueError("one stage of kind 'rl' is what run.steps counts; this recipe has more")
        updates = self.run.steps * self.learner.num_minibatches * self.learner.num_epochs
        has_rl = any(stage.kind == "rl" for stage in self.stages)
        if has_rl and self.learner.schedule != "constant" and updates < self.learner.warmup_updates:
            raise ValueError(
                f"learner.schedule {self.learner.schedule!r} over {updates} updates (steps x minibatches x epochs) has "
                f"learner.warmup_updates {self.learner.warmup_updates}, which count among them; lower it or raise "
                "run.steps"
            )
        if self.engine.is_deterministic and self.engine.dtype != "float32":
            raise ValueError("engine.mode 'deterministic' holds in float32; choose mode 'fast' for bfloat16")
        if self.engine.is_deterministic and self.engine.device != "cpu":
            raise ValueError(
                f"engine.mode 'deterministic' holds on a CPU, and engine.device is {self.engine.device!r}; set "
                "engine.mode=fast there"
            )
        if has_rl and self.rollout.group_size == 1 and self.objective.compares_attempts:
            raise ValueError(
                f"objective {self.objective.kind!r} compares the attempts of a group, and rollout.group_size is 1; "
                "give at least 2, or choose objective 'reinforce'"
            )
        return self

    @model_validator(mode="after")
    def _limits_are_told_apart(self) -> "RecipeConfig":
        names = [one.name for one in (*self.gates, *self.alarms)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two gates or alarms are named {twice[0]!r}; each needs a name of its own")
        return self

    @model_validator(mode="after")
    def _gates_know_their_protocols(self) -> "RecipeConfig":
        fixed = (self.evaluation.name, *(one.name for one in self.evaluation.also))
        for gate in self.gates:
            if isinstance(gate, EvaluationGateConfig) and gate.protocol not in ("", *fixed):
                raise ValueError(
                    f"gate {gate.name!r} is of protocol {gate.protocol!r}, and this run measures {', '.join(fixed)}; "
                    "name it in evaluation.protocol, so that it is fixed before the run"
                )
        return self

    @model_validator(mode="after")
    def _gates_can_pass(self) -> "RecipeConfig":
        samples = {"": self.evaluation.samples, self.evaluation.name: self.evaluation.samples}
        samples |= {one.name: one.samples for one in self.evaluation.also}
        for gate in self.gates:
            if isinstance(gate, EvaluationGateConfig):
                k = gate.labels.get("k", "")
                if k.isdecimal() and int(k) > samples[gate.protocol]:
                    raise ValueError(
                        f"gate {gate.name!r} asks for {gate.measure} with k {k}, and its protocol takes "
                        f"{samples[gate.protocol]} samples a task; choose a smaller k or more samples"
                    )
        refuse_contradictions(self.gates)
        return self

    @model_validator(mode="after")
    def _model_holds_the_contexts(self) -> "RecipeConfig":
        model, engine = self.model, self.engine
        if isinstance(model, FreshModelConfig) and model.max_context_tokens < engine.max_context_tokens:
            raise ValueError(
                f"engine.max_context_tokens {engine.max_context_tokens} is more than model.max_context_tokens "
                f"{model.max_context_tokens}, the positions that the model has; lower the one or raise the other"
            )
        return self
