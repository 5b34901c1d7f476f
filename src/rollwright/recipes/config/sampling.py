"""The engine and how episodes are sampled."""

from typing import Literal

from pydantic import Field, model_validator

from rollwright.recipes.config.devices import DeviceName
from rollwright.recipes.config.strict import StrictConfig

__all__ = ["EngineConfig", "RolloutConfig"]


class EngineConfig(StrictConfig):
    """What draws the tokens."""

    kind: Literal["embedded", "vllm"] = "embedded"
    """embedded: in this process, by torch. vllm: vLLM, as a process of its own, from an environment of its own."""
    mode: Literal["deterministic", "fast"] = "deterministic"
    """Of `embedded`. deterministic: an episode gives the same tokens whatever else is in the batch; in float32 on a
    CPU."""
    python: str = ".venv-vllm/bin/python"
    """Of `vllm`: the interpreter of the environment that it is installed in; `make setup-vllm` makes one."""
    eager: bool = True
    """Of `vllm`: without compilation and graphs; starts sooner, steps slower."""
    cache_gib: int = Field(default=1, ge=1, le=65536)
    """Of `vllm` on a CPU: GiB for keys and values."""
    gpu_memory_share: float = Field(default=0.5, gt=0, lt=1)
    """Of `vllm` on a GPU: the share of its memory for weights, keys and values."""
    device: DeviceName = "cpu"
    """Where it computes: `cpu`, `cuda` or `cuda:N`."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    num_slots: int = Field(default=64, ge=1, le=65536)
    """Contexts held at once."""
    max_context_tokens: int = Field(default=512, ge=16, le=100_000_000)

    @property
    def is_deterministic(self) -> bool:
        """Whether an episode gives the same tokens whatever else is in the batch."""
        return self.kind == "embedded" and self.mode == "deterministic"

    @model_validator(mode="after")
    def _device_is_whole(self) -> "EngineConfig":
        if self.kind == "vllm" and self.device not in ("cpu", "cuda"):
            raise ValueError(
                f"device {self.device!r} with kind 'vllm'; allowed are cpu and cuda, the first GPU that it sees"
            )
        return self


class RolloutConfig(StrictConfig):
    """How a batch of episodes is made."""

    batch_size: int = Field(default=64, ge=1, le=65536)
    """Episodes a step, a multiple of `group_size`."""
    group_size: int = Field(default=8, ge=1, le=65536)
    """Attempts at one task."""
    temperature: float = Field(default=1.0, gt=0, le=100)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)
    min_p: float = Field(default=0.0, ge=0, lt=1)
    max_turns: int = Field(default=4, ge=1, le=1_000_000)
    max_turn_tokens: int = Field(default=64, ge=1, le=100_000_000)
    max_episode_tokens: int = Field(default=256, ge=1, le=100_000_000)
    """Tokens that the policy may sample in one episode."""
    max_calls: int = Field(default=64, ge=0, le=1_000_000)
    """Tool calls of one episode; later ones are answered with status `limit`. An environment may allow fewer."""
    call_s: float = Field(default=60.0, gt=0, le=10_000_000)
    """One tool call. In the deterministic mode a call that takes longer is an infrastructure failure."""
    call_order: Literal["sequential", "parallel"] = "sequential"
    """How the calls of one turn run; their results are in the order of asking in either case."""
    wall_clock_s: float = Field(default=600.0, gt=0, le=10_000_000)
    """A guard against what hangs; in the deterministic mode it is an infrastructure failure."""
    max_attempts: int = Field(default=3, ge=1, le=1000)
    """Tries at a slot whose episode failed by no fault of the policy."""
    incomplete_groups: Literal["train", "filter", "wait"] = "train"
    """What becomes of a group in which a slot failed for good (M111): train what came, filter the group, or try the
    slot again until it comes."""
    min_group_fraction: float = Field(default=0.0, ge=0, le=1)
    """Of `train`: the share of a group that must have come; below it the group is filtered."""
    dynamic_sampling: bool = False
    """Filters groups whose attempts were all paid alike, and samples others in their place (M94)."""
    max_extra_groups: int = Field(default=64, ge=0, le=65536)
    """Of `dynamic_sampling`: groups sampled in the place of others, for one batch."""
    at_cap: Literal["best_available", "smaller", "refuse"] = "best_available"
    """Of `dynamic_sampling`, when those are used up: fill the batch with groups that teach nothing, train the smaller
    batch, or end the run."""
    truncation: Literal["negative", "mask", "exclude", "soft_penalty", "resume"] = "negative"
    """What a cut episode is for learning (M105)."""
    max_resumptions: int = Field(default=1, ge=1, le=1000)
    """Of `resume`: how often a cut episode goes on, each time with a fresh allowance; after that it is `negative`."""
    overlong_max_tokens: int | None = Field(default=None, ge=1)
    """Of `soft_penalty` (M87): sampled tokens at which it reaches -1."""
    overlong_buffer_tokens: int | None = Field(default=None, ge=1)
    """Of `soft_penalty`: tokens before that over which it ramps up."""

    @model_validator(mode="after")
    def _batch_is_filled_by_groups(self) -> "RolloutConfig":
        if self.batch_size % self.group_size:
            fits = [str(n) for n in range(1, self.batch_size + 1) if self.batch_size % n == 0]
            raise ValueError(
                f"batch_size {self.batch_size} is not a multiple of group_size {self.group_size}; "
                f"group sizes that divide it: {', '.join(fits)}"
            )
        if self.top_p < 1 or self.top_k > 0 or self.min_p > 0:
            raise ValueError(
                "training with top_p, top_k or min_p needs the support of each draw in the learner, which is not "
                "built yet; train at top_p=1, top_k=0, min_p=0 (an evaluation may truncate)"
            )
        if self.truncation != "resume" and self.max_resumptions != 1:
            raise ValueError(
                f"max_resumptions {self.max_resumptions} is of truncation 'resume' alone, and truncation is "
                f"{self.truncation!r}; set rollout.truncation=resume, or leave max_resumptions out"
            )
        if self.min_group_fraction and self.incomplete_groups != "train":
            raise ValueError(
                f"min_group_fraction {self.min_group_fraction} is of incomplete_groups 'train' alone, which is "
                f"{self.incomplete_groups!r}; set rollout.incomplete_groups=train, or leave min_group_fraction out"
            )
        if not self.dynamic_sampling and (self.max_extra_groups, self.at_cap) != (64, "best_available"):
            raise ValueError(
                "max_extra_groups and at_cap are of dynamic_sampling alone; set rollout.dynamic_sampling=true, or "
                "leave them out"
            )
        if self.dynamic_sampling and self.group_size < 2:
            raise ValueError("dynamic_sampling compares the attempts of a group; set rollout.group_size to 2 or more")
        overlong = (self.overlong_max_tokens, self.overlong_buffer_tokens)
        if overlong.count(None) != (0 if self.truncation == "soft_penalty" else 2):
            raise ValueError(
                "truncation 'soft_penalty' needs overlong_max_tokens and overlong_buffer_tokens; no other truncation "
                "takes them"
            )
        return self
