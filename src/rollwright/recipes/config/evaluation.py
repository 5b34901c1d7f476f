"""How a policy is measured: a protocol, written in a recipe or in a file of its own."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rollwright.recipes.config.strict import StrictConfig
from rollwright.recipes.config.world import VerifierPartConfig

__all__ = ["EvaluationConfig", "ProtocolConfig"]

_Attempts = Annotated[int, Field(ge=1, le=65536)]
_Rate = Annotated[float, Field(gt=0, le=1)]


class ProtocolConfig(StrictConfig):
    """What an evaluation holds fixed; all of it but name, level and pins is in the digest that seeds its episodes."""

    name: str = Field(default="held-out", pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    """What its rows are called."""
    split: Literal["held_out", "train"] = "held_out"
    """Which tasks: those that are never trained on, or trained ones, to see what was learned by heart."""
    tasks: int = Field(default=200, ge=1, le=10_000_000)
    """How many; the first so many of the split, in an order of their own."""
    samples: int = Field(default=2, ge=1, le=65536)
    """Attempts at each."""
    temperature: float = Field(default=1.0, ge=0, le=100)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)
    min_p: float = Field(default=0.0, ge=0, lt=1)
    max_turns: int | None = Field(default=None, ge=1, le=1_000_000)
    """Of an episode; left out, as in training, like the other two limits."""
    max_turn_tokens: int | None = Field(default=None, ge=1, le=100_000_000)
    max_episode_tokens: int | None = Field(default=None, ge=1, le=100_000_000)
    success_threshold: float | None = None
    """A reward of at least this is a success; left out, that of the verifiers."""
    attempts: tuple[_Attempts, ...] = ()
    """The k of pass@k, pass^k, maj@k and cover@k, at most `samples`; none: 1, 2, 4 and so on."""
    cover_rates: tuple[_Rate, ...] = ()
    """The success rates τ of cover@τ; none: one half and 1."""
    gold: tuple[VerifierPartConfig, ...] = Field(default=(), max_length=1)
    """A second verifier on the same episodes, unrelated to those that pay: the gap between both is measured."""
    level: float = Field(default=0.95, gt=0, lt=1)
    """Of the intervals."""
    seed: int = Field(default=0, ge=0, lt=2**53)
    """Goes into the digest, which seeds the episodes."""
    environment_revision: str | None = None
    """Pins: an evaluation under another environment, reward rule or prompt is refused. Left out, whatever there is."""
    reward_rule: str | None = None
    rendering_revision: str | None = None
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """The digest that must come of it all."""

    @model_validator(mode="after")
    def _can_be_measured(self) -> "ProtocolConfig":
        if list(self.attempts) != sorted(set(self.attempts)) or any(k > self.samples for k in self.attempts):
            raise ValueError(
                f"attempts are {list(self.attempts)} and samples {self.samples}; give each k once, rising, none above "
                "the samples of a task"
            )
        if list(self.cover_rates) != sorted(set(self.cover_rates)):
            raise ValueError(f"cover_rates are {list(self.cover_rates)}; give each once, rising")
        if any(part.kind == "world" for part in self.gold):
            raise ValueError("gold is a verifier of its own, and kind 'world' stands for those that pay; name one")
        return self


class EvaluationConfig(ProtocolConfig):
    """The held-out protocol, frozen before the run; written here, or named."""

    every: int = Field(default=20, ge=1, le=10_000_000)
    """Steps of the RL stage between evaluations."""
    protocol: tuple[str, ...] = ()
    """Protocols that ship, or files: the first gives the values of this section, the others stand in `also`."""
    also: tuple[ProtocolConfig, ...] = ()
    """Further protocols, measured at the same steps."""

    @model_validator(mode="after")
    def _protocols_are_told_apart(self) -> "EvaluationConfig":
        names = [self.name, *(one.name for one in self.also)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two protocols are named {twice[0]!r}; rows are told apart by name, so give each its own")
        return self
