"""Where each field that the survey of agentic RL demands of a trajectory and of a run manifest stands in a run folder.

A place is a column of a view (`segments.action_loss_mask`) or a field of the manifest (`manifest.run.run_id`); what
does not apply says why. A test walks the survey's lists and resolves every place.
"""

from dataclasses import dataclass

__all__ = ["SURVEY_FIELDS", "TERMINAL_REASONS", "NotApplicable", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Columns or manifest fields that hold a demanded field."""

    where: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """A demanded field that has no place, and why."""

    reason: str


def _at(*where: str) -> Place:
    return Place(where)


_NO_CONTAINER = (
    "episodes run without a container image; what decides them is `environment_revision` and `sandbox_profile`"
)

SURVEY_FIELDS: dict[str, dict[str, Place | NotApplicable]] = {
    "trajectory.minimum": {
        "task_id": _at("trajectories.task_id"),
        "environment_revision": _at("trajectories.environment_revision"),
        "reset_seed": _at("trajectories.reset_seed"),
        "observation_tokens": Place(("segments.token_ids", "segments.origin"), "origins other than policy"),
        "action_tokens": Place(("segments.generated_token_ids",), "tokens of origin policy"),
        "action_loss_mask": _at("segments.action_loss_mask"),
        "behavior_logprobs": _at("segments.behavior_logprobs"),
        "behavior_policy_version": _at("segments.policy_version"),
        "tool_request": _at("tool_calls.tool", "tool_calls.arguments", "tool_calls.asked_in"),
        "tool_result": _at("tool_calls.result", "tool_calls.answered_in"),
        "tool_result_token_mask": _at("segments.tool_result_token_mask"),
        "terminal_reason": _at("trajectories.terminal_reason"),
        "raw_verifier_output": _at("verdicts.value", "verdicts.components", "verdicts.evidence", "verdicts.status"),
        "scalar_reward": Place(("trajectories.reward", "trajectories.unscored_reason"), "exactly one of the two"),
        "grader_revision": _at("verdicts.verifier_revision", "trajectories.reward_rule"),
        "sandbox_image": _at("trajectories.sandbox_profile"),
        "timeout_or_status": _at("trajectories.timeout", "tool_calls.status", "trajectories.failure_class"),
    },
    "trajectory.full": {
        "trajectory_id": _at("trajectories.trajectory_id"),
        "task_id": _at("trajectories.task_id"),
        "task_source": _at("trajectories.task_source"),
        "task_revision": _at("trajectories.task_revision"),
        "environment_revision": _at("trajectories.environment_revision"),
        "reset_seed": _at("trajectories.reset_seed"),
        "initial_state_hash": _at("trajectories.initial_state_hash"),
        "span_id": _at("segments.span_id"),
        "parent_span_id": _at("segments.parent_span_id"),
        "turn_index": _at("segments.turn"),
        "action_type": _at("segments.spans"),
        "input_token_ids": _at("contexts.input_token_ids"),
        "generated_token_ids": _at("segments.generated_token_ids"),
        "action_loss_mask": _at("segments.action_loss_mask"),
        "behavior_policy_version": _at("segments.policy_version"),
        "behavior_logprobs": _at("segments.behavior_logprobs"),
        "proximal_policy_version": _at("receipts.proximal_policy_version"),
        "proximal_logprobs": _at("receipts.proximal_logprobs"),
        "tool_request": _at("tool_calls.tool", "tool_calls.arguments"),
        "tool_response_hash": Place(
            ("tool_calls.result_sha256", "tool_calls.result"), "the hash where the text is not kept inline"
        ),
        "tool_latency": _at("tool_calls.latency_s"),
        "tool_status": _at("tool_calls.status"),
        "raw_reward_components": _at("trajectories.reward_components", "verdicts.components"),
        "verifier_output": _at("verdicts.value", "verdicts.evidence"),
        "grader_revision": _at("verdicts.verifier_revision"),
        "terminal_reason": _at("trajectories.terminal_reason"),
        "truncated": _at("trajectories.truncated"),
        "timeout": _at("trajectories.timeout"),
        "infrastructure_failure": _at("trajectories.infrastructure_failure"),
        "wall_clock_start": _at("trajectories.started_at"),
        "wall_clock_end": _at("trajectories.ended_at"),
        "retry_lineage": _at("trajectories.lineage", "trajectories.parent_trajectory_id", "trajectories.attempt"),
    },
    "trajectory.additions": {
        "token_policy_version": Place(("segments.policy_version",), "a segment has one version; a swap opens the next"),
        "temperature": Place(("segments.sampling",), "field temperature"),
        "top_p": Place(("segments.sampling",), "field top_p"),
        "top_k": Place(("segments.sampling",), "field top_k"),
        "candidate_support": Place(("tensors.data",), "tensors support_counts and support_ids"),
        "expert_routes": Place(("tensors.data",), "tensor routed_experts"),
        "chat_template_revision": _at("trajectories.rendering_revision", "manifest.model.chat_template_sha256"),
        "tokenizer_revision": _at("trajectories.rendering_revision", "manifest.model.tokenizer_revision"),
        "branch_links": _at("segments.parent", "segments.context", "segments.spawned_by", "segments.copied_from"),
        "failure_class": _at("trajectories.failure_class"),
        "tool_response_retention": _at("tool_calls.retention", "tool_calls.result_sha256"),
    },
    "manifest.run": {
        "run_id": _at("manifest.run.run_id"),
        "parent_checkpoint_sha256": _at("manifest.run.parent_checkpoint_sha256"),
        "code_commit": _at("manifest.run.code_commit"),
        "config_sha256": _at("manifest.run.config_sha256"),
        "container_digests": _at("manifest.run.container_digests"),
        "cuda_driver": _at("manifest.run.cuda_driver"),
        "framework_versions": _at("manifest.run.framework_versions"),
    },
    "manifest.model": {
        "architecture": _at("manifest.model.architecture"),
        "tokenizer_revision": _at("manifest.model.tokenizer_revision"),
        "chat_template_sha256": _at("manifest.model.chat_template_sha256"),
        "precision_train": _at("manifest.model.precision_train"),
        "precision_rollout": _at("manifest.model.precision_rollout"),
        "parallelism_train": _at("manifest.model.parallelism_train"),
        "parallelism_rollout": _at("manifest.model.parallelism_rollout"),
    },
    "manifest.data": {
        "prompt_sources": _at("manifest.data.prompt_sources"),
        "contamination_audit_revision": _at("manifest.data.contamination_audit_revision"),
        "online_filter_revision": _at("manifest.data.online_filter_revision"),
    },
    "manifest.environment": {
        "image_digest": _at("manifest.environment.image_digest"),
        "reset_seed_policy": _at("manifest.environment.reset_seed_policy"),
        "tool_schema_revision": _at("manifest.environment.tool_schema_revision"),
        "timeout_policy": _at("manifest.environment.timeout_policy"),
        "network_or_index_snapshot": _at("manifest.environment.network_or_index_snapshot"),
    },
    "manifest.reward": {
        "verifier_commit": _at("manifest.reward.verifier_commit"),
        "grader_model_revision": _at("manifest.reward.judges.model_revision"),
        "grader_prompt_sha256": _at("manifest.reward.judges.prompt_sha256"),
        "component_weights": _at("manifest.reward.component_weights"),
        "truncation_policy": _at("manifest.reward.truncation_policy"),
    },
    "manifest.algorithm": {
        "estimator": _at("manifest.algorithm.estimator"),
        "loss_denominator": _at("manifest.algorithm.loss_denominator"),
        "reward_scaling": _at("manifest.algorithm.reward_scaling"),
        "clip_low": _at("manifest.algorithm.clip_low"),
        "clip_high": _at("manifest.algorithm.clip_high"),
        "kl_reference_revision": _at("manifest.algorithm.kl_reference_revision"),
        "max_policy_lag": _at("manifest.algorithm.max_policy_lag"),
    },
    "manifest.evaluation": {
        "harness_commit": _at("manifest.evaluation.harness_commit"),
        "prompt_template_sha256": _at("manifest.evaluation.prompt_template_sha256"),
        "budgets": _at("manifest.evaluation.budgets"),
        "sample_count": _at("manifest.evaluation.sample_count"),
        "aggregation": _at("manifest.evaluation.aggregation"),
    },
    "prompt_source": {
        "id": _at("manifest.data.prompt_sources.id"),
        "revision": _at("manifest.data.prompt_sources.revision"),
        "license": _at("manifest.data.prompt_sources.license"),
        "split_manifest_sha256": _at("manifest.data.prompt_sources.split_manifest_sha256"),
    },
    "data_ledger": {
        "original_source": _at("tasks.source", "manifest.data.prompt_sources.id"),
        "licence": _at("manifest.data.prompt_sources.license"),
        "acquisition_date": _at("manifest.data.prompt_sources.acquired_on"),
        "hash": Place(("tasks.task_id", "tasks.payload"), "the id ends in the digest of the task's canonical JSON"),
        "normalisation_code_revision": _at("tasks.revision"),
        "dedup_cluster": _at("manifest.data.prompt_sources.dedup_revision"),
        "contamination_checks": _at(
            "manifest.data.contamination_audit_revision", "manifest.data.prompt_sources.contamination_audit_revision"
        ),
        "verifier_version": _at("verdicts.verifier_revision"),
        "generator_model": _at("manifest.data.prompt_sources.generator_model"),
        "selection_decision": Place(("ledger.state", "ledger.rule"), "of each dispatched slot, with its rule"),
    },
    "environment_identity": {
        "container_digest": NotApplicable(_NO_CONTAINER),
        "dependencies": _at("manifest.run.framework_versions", "trajectories.environment_revision"),
        "fixtures": _at("trajectories.environment_revision", "trajectories.initial_state_hash"),
        "network_snapshot": _at("manifest.environment.network_or_index_snapshot"),
        "seed": _at("trajectories.reset_seed"),
        "resource_limits": _at("trajectories.sandbox_profile", "manifest.environment.timeout_policy"),
    },
    "learned_judge": {
        "model_revision": _at("manifest.reward.judges.model_revision"),
        "system_prompt": _at("manifest.reward.judges.prompt_sha256"),
        "decoding_parameters": _at("manifest.reward.judges.decoding"),
        "calibration_set": _at("manifest.reward.judges.calibration_sha256"),
        "raw_rationale_where_permitted": _at("verdicts.evidence"),
    },
}
"""Section of the survey's lists, to field, to its place."""

TERMINAL_REASONS: dict[str, tuple[str, ...]] = {
    "model_end_of_sequence": ("model_end",),
    "environment_success_or_failure": ("environment_success", "environment_failure"),
    "token_cap": ("token_limit", "context_limit"),
    "turn_or_tool_call_cap": ("turn_limit",),
    "wall_clock_timeout": ("wall_clock_limit",),
    "sandbox_crash_or_infrastructure_loss": ("infrastructure_failure",),
    "safety_stop": ("safety_stop",),
}
"""The survey's reasons for an episode to end, to ours; `aborted` and `superseded` come besides, never trained."""
