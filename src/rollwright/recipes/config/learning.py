"""The learner, the stages and the loop around them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import Field, field_validator, model_validator

from rollwright.recipes.config.devices import DeviceName
from rollwright.recipes.config.strict import StrictConfig
from rollwright.recipes.flat import Plain, flatten

__all__ = [
    "EvidenceConfig",
    "LearnerConfig",
    "RlStageConfig",
    "RunConfig",
    "RuntimeConfig",
    "StageConfig",
    "SupervisedStageConfig",
]


class RunConfig(StrictConfig):
    """The run as a whole."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    title: str = ""
    seed: int = Field(default=0, ge=0, lt=2**53)
    steps: int = Field(default=60, ge=1, le=10_000_000)
    """Steps (batches) of the RL stage."""
    evidence_label: Literal["D", "C", "I", "U"] = "I"
    """Of the values written in this recipe that `labels` does not name: D disclosed by its source, C confirmed in a
    released artifact, I inferred or chosen here, U unknown."""
    labels: dict[str, str] = {}
    """Dotted key, or a section's name, to a label and behind a colon where it comes from: `D: arXiv:2503.20783`."""

    @field_validator("labels", mode="before")
    @classmethod
    def _dotted(cls, labels: Any) -> Any:  # noqa: ANN401 - pydantic hands over what the person wrote
        """Keys need no quotes: a table in a table is a dotted key."""
        return dict(flatten(cast("Mapping[str, Plain]", labels))) if isinstance(labels, Mapping) else labels


class LearnerConfig(StrictConfig):
    """How gradients become new weights."""

    device: DeviceName = "cpu"
    """Where weights, gradients and optimizer are: `cpu`, `cuda` or `cuda:N`."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the forward and backward; weights and optimizer stay float32."""
    learning_rate: float = Field(default=1e-3, gt=0, le=10)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_updates: int = Field(default=0, ge=0, le=10_000_000)
    adam_beta1: float = Field(default=0.9, ge=0, lt=1)
    adam_beta2: float = Field(default=0.95, ge=0, lt=1)
    adam_epsilon: float = Field(default=1e-8, gt=0, le=1)
    weight_decay: float = Field(default=0.0, ge=0, le=10)
    max_grad_norm: float = Field(default=1.0, gt=0)
    micro_batch_tokens: int = Field(default=8192, ge=1, le=100_000_000)
    """Token budget of one forward and backward; a beginning that rows share counts once."""
    activations: Literal["kept", "recomputed"] = "kept"
    """What the backward finds of each layer: all it needs, or the layer's input alone, for a third more work and the
    memory of one layer in place of all; changes no number. Only dense families (Llama, Mistral, Qwen2, Qwen3) can
    recompute."""
    num_minibatches: int = Field(default=1, ge=1, le=65536)
    """Optimizer steps a batch is cut into."""
    num_epochs: int = Field(default=1, ge=1, le=1000)
    """Passes over a batch."""


class SupervisedStageConfig(StrictConfig):
    """A warm start on demonstrations that the environment makes; action tokens only."""

    kind: Literal["supervised"] = "supervised"
    name: str = "warm_start"
    steps: int = Field(default=200, ge=1, le=10_000_000)
    batch_size: int = Field(default=64, ge=1, le=65536)
    """Demonstrations a step."""
    learning_rate: float = Field(default=2e-3, gt=0, le=10)
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    warmup_updates: int = Field(default=10, ge=0, le=10_000_000)

    @model_validator(mode="after")
    def _is_longer_than_its_warmup(self) -> "SupervisedStageConfig":
        if self.schedule != "constant" and self.steps < self.warmup_updates:
            raise ValueError(
                f"a {self.schedule} schedule of {self.steps} steps has warmup_updates {self.warmup_updates}, which "
                "count among them; lower warmup_updates or raise steps"
            )
        return self


class RlStageConfig(StrictConfig):
    """Reinforcement learning from the outcome; its steps are `run.steps`."""

    kind: Literal["rl"] = "rl"
    name: str = "rl"


StageConfig = Annotated[SupervisedStageConfig | RlStageConfig, Field(discriminator="kind")]


class RuntimeConfig(StrictConfig):
    """The loop."""

    max_lag: int = Field(default=0, ge=0, le=1_000_000)
    """Steps that a trained token may be old. 0: synchronous."""
    over_lag: Literal["expire", "mask"] = "expire"
    """What becomes of an episode that is older when its batch is taken: it expires by its oldest token, or only its
    tokens that are too old are masked, each by its own version (M109)."""
    mixture: Literal["dispatch", "deficit"] = "dispatch"
    """What follows the weights of the sources: what is started, or, by deficit, what is trained (M103)."""
    oversample: int = Field(default=0, ge=0, le=65536)
    """Groups that are started beyond the batch, so that it is full before the slowest end (M99)."""
    stragglers: Literal["requeue", "park"] = "requeue"
    """Of `oversample`: an episode that runs when the batch is full is aborted and its task started again, unless a
    later batch may hold it; or it is parked and goes on with the next step, where its world replays or takes
    snapshots."""
    swap: Literal["drain", "continue", "recompute"] = "drain"
    """What the engine does with turns that run when new weights come: it ends them first; or they go on under the new
    weights, over their old cache or over one made again (M110)."""
    tolerated_refusals: int = Field(default=0, ge=0, le=1000)
    """Publications in a row that the engine may refuse, with a warning and the old version serving on."""
    probe: Literal["auto", "off", "warn", "stop"] = "auto"
    """Fixed contexts that engine and learner both score after each publication, and what a difference beyond the bound
    does. auto: stop where the engine is a service of its own, warn where there is a lag, else off."""
    engine_silent_s: float = Field(default=300.0, gt=0, le=1e9)
    """Seconds without a sign from an engine that was asked something, after which it is made again."""
    stall_s: float = Field(default=3600.0, gt=0, le=1e9)
    """Seconds without a finished step or evaluation, after which the run stops with a diagnosis."""
    concurrency: int = Field(default=64, ge=1, le=65536)
    """Episodes that run at once, as far as the slots of the engine and the places of the environment go."""
    least_concurrency: int = Field(default=0, ge=0, le=65536)
    """Down to which fewer run at once for a while, where their contexts outnumber the engine's slots. 0: never."""
    checkpoint_every: int = Field(default=1, ge=1, le=10_000_000)
    """Steps; at most this many are lost by a crash."""
    keep_checkpoints: int = Field(default=2, ge=1, le=10_000_000)
    """The newest ones that are kept, beside the first of each stage."""
    keep_every: int = Field(default=20, ge=0, le=10_000_000)
    """Steps; checkpoints at multiples of it are kept too. 0: none."""
    threads: int = Field(default=2, ge=1, le=1024)
    """Of torch, for engine and learner, which take turns; where they work at once (a lag), each has half; recorded."""

    @model_validator(mode="after")
    def _settings_agree(self) -> "RuntimeConfig":
        if self.stragglers == "park" and self.oversample == 0:
            raise ValueError(
                "stragglers 'park' is of runtime.oversample alone, which is 0; set the groups to start beyond the "
                "batch, or leave stragglers out"
            )
        if self.least_concurrency > self.concurrency:
            raise ValueError(
                f"runtime.least_concurrency is {self.least_concurrency} and runtime.concurrency {self.concurrency}; "
                "the first is at most the second, or 0"
            )
        if self.stragglers == "park" and self.max_lag == 0 and self.over_lag == "expire":
            raise ValueError(
                "an episode that is parked goes on under later weights, so at max_lag 0 it would expire; set "
                "runtime.max_lag to 1 or more, over_lag to mask, or stragglers to requeue"
            )
        return self


class EvidenceConfig(StrictConfig):
    """What the run folder keeps."""

    receipts: Literal["full", "runs", "sums"] = "full"
    """runs: without log-probabilities; sums: without runs too."""
    reference_every: int = Field(default=10, ge=0, le=10_000_000)
    """Steps of the RL stage between measurements of the policy's distance to its first weights of that stage, where the
    objective reads no reference; costs a forward over the trained tokens of such a step and the memory of the frozen
    weights, and changes nothing that is trained. 0: never."""
