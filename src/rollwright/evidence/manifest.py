"""The manifest of a run: what was decided before its first step, frozen, with the origin of every value.

None means that the thing does not exist in this run (no learned judge, no container); what exists and is not known is
the text "unknown". A run that goes on with other code, data, environment or verifiers has a manifest for each segment.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rollwright.evidence.errors import EvidenceError
from rollwright.record import EligibleRow

__all__ = [
    "SCHEMA_VERSION",
    "UNKNOWN",
    "AlgorithmSection",
    "ConfigValue",
    "DataSection",
    "Difference",
    "Effect",
    "EnvironmentSection",
    "EvaluationSection",
    "JudgeSection",
    "MachineSection",
    "Manifest",
    "ModelSection",
    "PromptSource",
    "Retention",
    "RewardSection",
    "RunSection",
    "SegmentSection",
    "manifest_from_json",
    "manifest_sha256",
    "manifest_to_json",
    "schema_version_of",
]

SCHEMA_VERSION = 2
"""Of everything in a run folder; another one is refused with a sentence."""

UNKNOWN = "unknown"
"""Of what exists and is not known."""

Retention = Literal["full", "runs", "sums"]
"""What receipts keep: all; no per-token floats of models; or only sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValue:
    """One resolved key of the configuration."""

    key: str
    """`objective.surrogate.clip_high`"""
    value: str
    """JSON."""
    origin: str
    """Who set it: default, preset and its name, file and its name, or command line."""
    label: str | None = None
    """Evidence label of a preset's value (D, C, I, U)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSource:
    """Where tasks come from."""

    id: str
    revision: str
    license: str
    """SPDX identifier, as its owner states it."""
    split_manifest_sha256: str
    acquired_on: str | None = None
    """The day on which its rows were taken; None where a program makes them."""
    generator_model: str | None = None
    """The model that wrote its rows; None where none did."""
    dedup_revision: str | None = None
    """Of what grouped its near duplicates; None where a program makes distinct rows."""
    contamination_audit_revision: str | None = None
    """Of what compared its rows with what is held out; None where that is fixed by construction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSection:
    """Which run this is and what it was built from."""

    run_id: str
    created_at: datetime
    code_commit: str
    """`-changed` behind it where the working tree differs."""
    config_sha256: str
    framework_versions: Mapping[str, str]
    """Package to version; equal on resume or the deterministic promise ends."""
    code_sha256: str
    """Of the sources of this package, whatever the commit says."""
    code_diff_sha256: str | None = None
    """Of what the working tree has that the commit has not; None: nothing, or no repository."""
    parent_checkpoint_sha256: str | None = None
    """Of the weights that the run began with, where they are not its own."""
    source_run_id: str | None = None
    """The run whose trajectories are trained again."""
    container_digests: tuple[str, ...] = ()
    cuda_driver: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSection:
    """What is trained."""

    architecture: str
    num_parameters: int
    initial_weights_sha256: str
    tokenizer_revision: str
    chat_template_sha256: str
    precision_train: str
    precision_rollout: str
    parallelism_train: Mapping[str, int] = field(default_factory=lambda: {})
    parallelism_rollout: Mapping[str, int] = field(default_factory=lambda: {})


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSection:
    """What it is trained on."""

    prompt_sources: tuple[PromptSource, ...]
    contamination_audit_revision: str | None = None
    online_filter_revision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSection:
    """Where episodes happen."""

    name: str
    revision: str
    reset_seed_policy: str
    tool_schema_revision: str | None
    timeout_policy: Mapping[str, float]
    """Limit to its value: turns, tokens, seconds."""
    image_digest: str | None = None
    """Of what programs run in; of a sandbox its profile, led by the isolation that it gives. None: none run."""
    network_or_index_snapshot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSection:
    """A grader that is a model."""

    verifier: str
    model_revision: str
    prompt_sha256: str | None
    """Of what it is told beside the answer; None for a reward model, which is told nothing."""
    decoding: Mapping[str, float | str]
    """Setting to its value: temperature, tokens; empty for a reward model, which decodes nothing."""
    calibration_sha256: str | None
    """Of the labeled cases that it had to agree with; None: it was held to none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSection:
    """What pays."""

    rule: str
    """The composition's revision."""
    verifier_commit: str
    verifier_revisions: Mapping[str, str]
    component_weights: Mapping[str, float]
    truncation_policy: str
    judges: tuple[JudgeSection, ...] = ()
    """The learned ones among the verifiers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmSection:
    """How one stage learns."""

    stage: str
    estimator: str
    loss_denominator: str
    reward_scaling: str
    clip_low: float | None
    clip_high: float | None
    kl_reference_revision: str | None
    max_policy_lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSection:
    """How it is measured, fixed before the run."""

    protocol: str
    protocol_sha256: str
    harness_commit: str
    prompt_template_sha256: str
    budgets: Mapping[str, float]
    sample_count: int
    aggregation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSection:
    """What the run stands on; part of the conditions of the deterministic promise."""

    cpu_model: str
    torch_capability: str | None
    num_cores: int
    memory_bytes: int
    operating_system: str
    python: str
    threads: Mapping[str, int]
    """Role to threads: engine, learner, verifiers."""
    num_ranks: int = 1
    accelerators: tuple[str, ...] = ()


Effect = Literal["refused", "segment", "promise", "noted"]
"""What a difference does to a run that goes on: it cannot; only in a new segment; without the deterministic promise; or
nothing but being said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field in which a stored manifest and the present one differ."""

    path: str
    stored: str
    now: str
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSection:
    """Why a run goes on under other conditions than it began with."""

    number: int
    """From 2; the first segment is what the run began as."""
    reason: str
    """As the person gave it."""
    opened_at: datetime
    after_step: int
    """The step that was the last when it was opened; which commits are of it, they say themselves."""
    previous_sha256: str
    """Of the manifest before it."""
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All that was decided before the first step."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    run: RunSection
    model: ModelSection
    data: DataSection
    environment: EnvironmentSection
    reward: RewardSection
    algorithm: tuple[AlgorithmSection, ...]
    """One a stage, in order."""
    evaluation: EvaluationSection
    machine: MachineSection
    seeds: Mapping[str, int]
    eligible: tuple[EligibleRow, ...]
    """The (origin, policy) pairs that each model's component trains."""
    configuration: tuple[ConfigValue, ...]
    receipts: Retention
    is_deterministic: bool
    """True where the run started under the conditions of the deterministic promise."""
    digests: Mapping[str, str] = field(default_factory=lambda: {})
    """Further pinned inputs: name to sha256."""
    segment: SegmentSection | None = None
    """None: the segment that the run began with."""
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class _Version:
    schema_version: int


_ADAPTER = TypeAdapter(Manifest)
_VERSION = TypeAdapter(_Version)


def manifest_to_json(manifest: Manifest) -> bytes:
    """The manifest as it stands in the folder."""
    return _ADAPTER.dump_json(manifest, indent=1) + b"\n"


def manifest_from_json(content: bytes, where: str) -> Manifest:
    """The manifest of a folder.

    Raises:
        EvidenceError: when the text is not a manifest.
    """
    try:
        return _ADAPTER.validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise EvidenceError(
            f"{where} is not a manifest of this schema: {place}: {first['msg']}. It is written once by `train` "
            "and never edited; restore it from a copy."
        ) from error


def manifest_sha256(content: bytes) -> str:
    """Digest that every commit carries, so that an edited manifest is noticed."""
    return hashlib.sha256(content).hexdigest()


def schema_version_of(content: bytes) -> int | None:
    """The schema that a manifest says it has; None where it says none."""
    try:
        return _VERSION.validate_json(content).schema_version
    except ValidationError:
        return None
