"""The engine and how episodes are sampled."""

from typing import Literal

from pydantic import Field, model_validator

from rollwright.recipes.config.strict import StrictConfig

__all__ = ["EngineConfig", "RolloutConfig"]


class EngineConfig(StrictConfig):
    """What draws the tokens."""

    kind: Literal["embedded"] = "embedded"
    mode: Literal["deterministic", "fast"] = "deterministic"
    """deterministic: an episode gives the same tokens whatever else is in the batch."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    num_slots: int = Field(default=64, ge=1, le=65536)
    """Contexts held at once."""
    max_context_tokens: int = Field(default=512, ge=16, le=100_000_000)


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
    incomplete_groups: Literal["train", "filter"] = "train"
    """What becomes of a group in which a slot failed for good: train what came, or filter the group."""
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
        overlong = (self.overlong_max_tokens, self.overlong_buffer_tokens)
        if overlong.count(None) != (0 if self.truncation == "soft_penalty" else 2):
            raise ValueError(
                "truncation 'soft_penalty' needs overlong_max_tokens and overlong_buffer_tokens; no other truncation "
                "takes them"
            )
        return self
