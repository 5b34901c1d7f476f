"""The manifest of a run: what was decided before its first step, frozen, with the origin of every value.

None means that the thing does not exist in this run (no learned judge, no container); what exists and is not known is
the text "unknown".
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
    "AlgorithmSection",
    "ConfigValue",
    "DataSection",
    "Difference",
    "EnvironmentSection",
    "EvaluationSection",
    "MachineSection",
    "Manifest",
    "ModelSection",
    "PromptSource",
    "Retention",
    "RewardSection",
    "RunSection",
    "manifest_differences",
    "manifest_from_json",
    "manifest_sha256",
    "manifest_to_json",
    "schema_version_of",
]

SCHEMA_VERSION = 1
"""Of everything in a run folder; another one is refused with a sentence."""

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
    split_manifest_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSection:
    """Which run this is and what it was built from."""

    run_id: str
    created_at: datetime
    code_commit: str
    config_sha256: str
    framework_versions: Mapping[str, str]
    """Package to version; equal on resume or the deterministic promise ends."""
    parent_checkpoint_sha256: str | None = None
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
class RewardSection:
    """What pays."""

    rule: str
    """The composition's revision."""
    verifier_commit: str
    verifier_revisions: Mapping[str, str]
    component_weights: Mapping[str, float]
    truncation_policy: str
    grader_model_revision: str | None = None
    grader_prompt_sha256: str | None = None


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
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field in which a stored manifest and the present one differ."""

    path: str
    stored: str
    now: str
    is_condition: bool
    """True for a condition of the deterministic promise: code, configuration, model bytes, packages, machine;
    and where `is_refused`."""
    is_refused: bool
    """True where the run would hold two experiments: another environment, verifier, task list, recipe or protocol."""


@dataclass(frozen=True, slots=True)
class _Version:
    schema_version: int


_ADAPTER = TypeAdapter(Manifest)
_VERSION = TypeAdapter(_Version)
_OF_THE_OCCASION = ("run.run_id", "run.created_at", "machine.memory_bytes", "machine.num_cores")
_OF_THE_EXPERIMENT = (
    "environment.name",
    "environment.revision",
    "reward.rule",
    "reward.verifier_revisions",
    "data.prompt_sources",
    "evaluation.protocol_sha256",
    "run.config_sha256",
    "model.tokenizer_revision",
    "model.chat_template_sha256",
)
_CONDITIONS = (
    "run.code_commit",
    "run.config_sha256",
    "run.framework_versions",
    "configuration",
    "model",
    "machine.cpu_model",
    "machine.torch_capability",
    "machine.threads",
    "machine.num_ranks",
    "machine.accelerators",
    "seeds",
    "digests",
)


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


def manifest_differences(stored: Manifest, now: Manifest) -> tuple[Difference, ...]:
    """Fields in which a run resumed now would differ from the run as it started.

    Args:
        stored: the folder's.
        now: made from the present code, configuration and machine.

    Returns:
        One difference a field, by path; identity and creation time are not compared.
    """
    before, after = _flat(stored), _flat(now)
    return tuple(
        Difference(
            path=path,
            stored=before.get(path, "absent"),
            now=after.get(path, "absent"),
            is_condition=path.startswith((*_CONDITIONS, *_OF_THE_EXPERIMENT)),
            is_refused=path.startswith(_OF_THE_EXPERIMENT),
        )
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path) and path not in _OF_THE_OCCASION
    )


def _flat(manifest: Manifest) -> dict[str, str]:
    found: dict[str, str] = {}
    dumped: object = _ADAPTER.dump_python(manifest, mode="json", exclude={"configuration"})
    _flatten("", dumped, found)
    for value in manifest.configuration:
        found[f"configuration.{value.key}"] = value.value
    return found


def _flatten(path: str, value: object, found: dict[str, str]) -> None:
    match value:
        case dict():
            for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]  # JSON
                _flatten(f"{path}.{key}".lstrip("."), inner, found)  # pyright: ignore[reportUnknownArgumentType] - JSON
        case list():
            for index, inner in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - JSON
                _flatten(f"{path}.{index}", inner, found)  # pyright: ignore[reportUnknownArgumentType] - JSON
        case _:
            found[path] = str(value)


def schema_version_of(content: bytes) -> int | None:
    """The schema that a manifest says it has; None where it says none."""
    try:
        return _VERSION.validate_json(content).schema_version
    except ValidationError:
        return None
