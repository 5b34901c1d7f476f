"""The manifest of a run: all that was decided before its first step."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from rollwright.evaluation import EvaluationProtocol
from rollwright.evidence.manifest import (
    AlgorithmSection,
    ConfigValue,
    DataSection,
    EnvironmentSection,
    EvaluationSection,
    JudgeSection,
    Manifest,
    ModelSection,
    PromptSource,
    RewardSection,
    RunSection,
)
from rollwright.recipes.build.machine import (
    code_commit,
    container_digests,
    diff_sha256,
    driver_version,
    framework_versions,
    machine_section,
    package_folder,
    package_sha256,
    role_threads,
)
from rollwright.recipes.build.objective import build_objective
from rollwright.recipes.build.pinned import code_digests
from rollwright.recipes.config.learning import StageConfig
from rollwright.recipes.config.objective import ObjectiveConfig
from rollwright.recipes.config.objective.surrogate import (
    ClipConfig,
    ClipCovConfig,
    DualClipConfig,
    EarlConfig,
    SequenceClipConfig,
)
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.config.world import WorldEnvironmentConfig
from rollwright.recipes.flat import flatten
from rollwright.recipes.resolve import Resolved
from rollwright.recipes.withheld import portable_tree
from rollwright.recipes.worlds.table import WORLDS
from rollwright.record import EligibleRow, Environment, digest
from rollwright.tasks import GENERATED, UNSTATED, Mixture, Provenance, license_of
from rollwright.tasks.contamination import AUDIT_RULES

__all__ = ["ManifestFacts", "build_manifest", "config_sha256", "eligible_rows"]

_SPLIT_RULE = "each held-out question compared with each that trains, by the question's key; revision 1"
"""What a mixture does where it is made, to all of its tasks."""
_OVERLAP_RULE = f"texts compared once before the first step, event contamination; revision {AUDIT_RULES.revision}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFacts:
    """What the wiring found out while it built the parts."""

    run_id: str
    created_at: datetime
    source_run_id: str | None
    parent_checkpoint_sha256: str | None
    architecture: str
    num_parameters: int
    initial_weights_sha256: str
    tokenizer_revision: str
    tokenizer: Path
    environment: Environment
    tool_schema_revision: str
    reward_rule: str
    verifier_revisions: Mapping[str, str]
    verifier_weights: Mapping[str, float]
    """Name to weight of every part that judges, those of a world one by one."""
    judges: tuple[JudgeSection, ...]
    sandbox_profile: str | None
    snapshot: str | None
    """Of what the episodes look up outside of themselves; None: they look up nothing."""
    mixture: Mixture
    protocols: tuple[EvaluationProtocol, ...]
    """The run's own first, then those beside it."""
    is_deterministic: bool


def config_sha256(recipe: RecipeConfig) -> str:
    """Of every value that decides a run; a manifest holds it. Where metrics are sent decides nothing."""
    stored = portable_tree(recipe.model_dump(mode="json", exclude_none=True, exclude={"exporters"}))
    return digest(cast("Any", stored))


def build_manifest(resolved: Resolved, facts: ManifestFacts) -> Manifest:
    """Freeze what was decided."""
    recipe = resolved.recipe
    values = portable_tree(recipe.model_dump(mode="json", exclude_none=True))
    commit = code_commit()
    template_sha256 = digest((facts.tokenizer / "chat_template.jinja").read_text(encoding="utf-8"))
    return Manifest(
        run=RunSection(
            run_id=facts.run_id,
            created_at=facts.created_at,
            code_commit=commit,
            config_sha256=config_sha256(recipe),
            framework_versions=framework_versions(),
            code_sha256=package_sha256(),
            code_diff_sha256=diff_sha256(package_folder()),
            source_run_id=facts.source_run_id,
            parent_checkpoint_sha256=facts.parent_checkpoint_sha256,
            container_digests=container_digests(),
            cuda_driver=driver_version(),
        ),
        model=_model(recipe, facts, template_sha256),
        data=DataSection(
            prompt_sources=_sources(recipe, facts.mixture),
            contamination_audit_revision=f"{_SPLIT_RULE}. {_OVERLAP_RULE}",
            online_filter_revision=_online_filter(recipe),
        ),
        environment=_environment(recipe, facts),
        reward=RewardSection(
            rule=facts.reward_rule,
            verifier_commit=commit,
            verifier_revisions=facts.verifier_revisions,
            component_weights=_component_weights(recipe, facts),
            truncation_policy=recipe.rollout.truncation,
            judges=facts.judges,
        ),
        algorithm=tuple(_algorithm(stage, recipe) for stage in recipe.stages),
        evaluation=_evaluation(facts.protocols[0], commit, template_sha256),
        machine=machine_section(threads=role_threads(recipe.runtime)),
        seeds={"run": recipe.run.seed, "evaluation": recipe.evaluation.seed},
        eligible=eligible_rows(recipe),
        configuration=tuple(
            ConfigValue(
                key=key,
                value=json.dumps(value),
                origin=resolved.origins.get(key, "default"),
                label=resolved.label_of(key),
            )
            for key, value in flatten(values)
        ),
        receipts=recipe.evidence.receipts,
        is_deterministic=facts.is_deterministic,
        digests={
            **code_digests(recipe),
            **{f"protocol {further.name}": further.sha256 for further in facts.protocols[1:]},
        },
    )


def eligible_rows(recipe: RecipeConfig) -> tuple[EligibleRow, ...]:
    """Which tokens each component of each stage's loss is made of: what the audit holds receipts to."""
    rows: list[EligibleRow] = []
    kinds = {stage.kind for stage in recipe.stages}
    if "supervised" in kinds:
        rows.append(EligibleRow(model="policy", component="nll", origin="demonstration", policy=None))
    if "rl" in kinds:
        objective = build_objective(recipe.objective, recipe.rollout)
        components = (objective.component, *(one.component for one in objective.regularizers))
        rows += [EligibleRow(model="policy", component=one, origin="policy", policy="policy") for one in components]
    return tuple(rows)


def _model(recipe: RecipeConfig, facts: ManifestFacts, template_sha256: str) -> ModelSection:
    return ModelSection(
        architecture=facts.architecture,
        num_parameters=facts.num_parameters,
        initial_weights_sha256=facts.initial_weights_sha256,
        tokenizer_revision=facts.tokenizer_revision,
        chat_template_sha256=template_sha256,
        precision_train=recipe.learner.dtype,
        precision_rollout=recipe.engine.dtype,
        parallelism_train={"ranks": 1},
        parallelism_rollout={"engines": 1, "slots": recipe.engine.num_slots},
    )


def _component_weights(recipe: RecipeConfig, facts: ManifestFacts) -> Mapping[str, float]:
    """As the recipe names the parts; where a world brings its own, as these are named."""
    if any(part.kind == "world" for part in recipe.verifier.parts):
        return facts.verifier_weights
    return {part.kind: part.weight for part in recipe.verifier.parts}


def _environment(recipe: RecipeConfig, facts: ManifestFacts) -> EnvironmentSection:
    return EnvironmentSection(
        name=facts.environment.name,
        revision=facts.environment.revision,
        reset_seed_policy="blake2b of (run seed, purpose, group); evaluation: of (protocol digest, task)",
        tool_schema_revision=facts.tool_schema_revision,
        timeout_policy={
            "turns": recipe.rollout.max_turns,
            "turn_tokens": recipe.rollout.max_turn_tokens,
            "episode_tokens": recipe.rollout.max_episode_tokens,
            "wall_clock_s": recipe.rollout.wall_clock_s,
            "calls": recipe.rollout.max_calls,
            "call_s": recipe.rollout.call_s,
        },
        image_digest=facts.sandbox_profile,
        network_or_index_snapshot=facts.snapshot,
    )


def _evaluation(protocol: EvaluationProtocol, commit: str, template_sha256: str) -> EvaluationSection:
    return EvaluationSection(
        protocol=protocol.name,
        protocol_sha256=protocol.sha256,
        harness_commit=commit,
        prompt_template_sha256=template_sha256,
        budgets={
            "turns": protocol.max_turns,
            "turn_tokens": protocol.max_turn_tokens,
            "episode_tokens": protocol.max_episode_tokens,
        },
        sample_count=protocol.samples,
        aggregation="mean over tasks of each task's mean; interval clustered by task",
    )


def _sources(recipe: RecipeConfig, mixture: Mixture) -> tuple[PromptSource, ...]:
    rows: list[PromptSource] = []
    for stratum in mixture.strata:
        splits = {"train": [t.task_id for t in stratum.train], "held_out": [t.task_id for t in stratum.held_out]}
        said = _made_here() if stratum.provenance == UNSTATED and _ships(recipe) else stratum.provenance
        rows.append(
            PromptSource(
                id=stratum.name,
                revision=stratum.train[0].revision,
                license=said.license,
                split_manifest_sha256=digest(splits),
                acquired_on=said.acquired_on,
                generator_model=said.generator_model,
                dedup_revision=said.dedup_revision,
                contamination_audit_revision=said.contamination_audit_revision,
            )
        )
    return tuple(rows)


def _ships(recipe: RecipeConfig) -> bool:
    """Whether the tasks are made by a program of this package."""
    environment = recipe.environment
    if recipe.tasks.kind == "world":
        return isinstance(environment, WorldEnvironmentConfig) and environment.name in WORLDS
    return recipe.tasks.kind == "arithmetic"


def _made_here() -> Provenance:
    return replace(GENERATED, license=license_of("rollwright"))


def _online_filter(recipe: RecipeConfig) -> str | None:
    """A digest of the rules by which groups are left out by what they were paid; None where none is."""
    rollout = recipe.rollout
    if not rollout.dynamic_sampling:
        return None
    return digest(["dynamic_sampling", rollout.max_extra_groups, rollout.at_cap])


def _algorithm(stage: StageConfig, recipe: RecipeConfig) -> AlgorithmSection:
    if stage.kind == "supervised":
        return AlgorithmSection(
            stage=stage.name,
            estimator="supervised",
            loss_denominator="token_mean",
            reward_scaling="none",
            clip_low=None,
            clip_high=None,
            kl_reference_revision=None,
            max_policy_lag=0,
        )
    objective: ObjectiveConfig = recipe.objective
    clip = objective.surrogate
    is_clipped = isinstance(clip, ClipConfig | DualClipConfig | ClipCovConfig | SequenceClipConfig | EarlConfig)
    return AlgorithmSection(
        stage=stage.name,
        estimator=objective.kind,
        loss_denominator=objective.denominator,
        reward_scaling=objective.reward_scaling,
        clip_low=clip.clip_low if is_clipped else None,
        clip_high=clip.clip_high if is_clipped else None,
        kl_reference_revision="weights at the start of the stage" if objective.kl_coefficient else None,
        max_policy_lag=recipe.runtime.max_lag,
    )
