"""What is optimised: one class an estimator; the four settings on which publications differ are always named."""

from typing import Annotated, Literal

from pydantic import Field

from rollwright.recipes.config.strict import StrictConfig

__all__ = [
    "DapoConfig",
    "DenominatorName",
    "DrGrpoConfig",
    "GrpoConfig",
    "ObjectiveConfig",
    "ReinforceConfig",
    "RlooConfig",
]

DenominatorName = Literal["token_mean", "response_mean", "fixed_length", "sequence_sum", "prompt_mean"]


class _ObjectiveConfig(StrictConfig):
    denominator: DenominatorName = "token_mean"
    """What a token's weight is divided by (M72 to M76)."""
    fixed_length_tokens: int | None = Field(default=None, ge=1)
    """L of `fixed_length`; required there, never the padded width."""
    kl_coefficient: float = Field(default=0.0, ge=0)
    """Of the KL to the stage's first weights, in the loss; 0: no reference model."""
    kl_estimator: Literal["k1", "k2", "k3", "k3+"] = "k3"


class _ClippedConfig(_ObjectiveConfig):
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    clip_high: float = Field(default=0.2, gt=0)


class GrpoConfig(_ClippedConfig):
    """Reward minus its group's mean, over the group's standard deviation; clipped (M04, M49)."""

    kind: Literal["grpo"] = "grpo"
    denominator: DenominatorName = "response_mean"
    ddof: int = Field(default=1, ge=0, le=1)
    """Of the standard deviation."""
    std_epsilon: float = Field(default=1e-6, ge=0)
    reward_scaling: Literal["group_std"] = "group_std"
    """What a centred reward is divided by; fixed by the kind, and written out where recipes differ."""


class DrGrpoConfig(_ClippedConfig):
    """Reward minus its group's mean, without the standard deviation (M05, M49)."""

    kind: Literal["dr_grpo"] = "dr_grpo"
    denominator: DenominatorName = "token_mean"
    reward_scaling: Literal["none"] = "none"


class DapoConfig(_ClippedConfig):
    """Standardised within the group, with a wider upper clip and a token mean (M04, M50, M73)."""

    kind: Literal["dapo"] = "dapo"
    clip_high: float = Field(default=0.28, gt=0)
    ddof: int = Field(default=1, ge=0, le=1)
    std_epsilon: float = Field(default=1e-6, ge=0)
    reward_scaling: Literal["group_std"] = "group_std"


class RlooConfig(_ObjectiveConfig):
    """Reward minus the mean of the other attempts; plain policy gradient (M03)."""

    kind: Literal["rloo"] = "rloo"
    reward_scaling: Literal["none"] = "none"


class ReinforceConfig(_ObjectiveConfig):
    """Reward minus a constant; plain policy gradient."""

    kind: Literal["reinforce"] = "reinforce"
    baseline: float = 0.0
    reward_scaling: Literal["none"] = "none"


ObjectiveConfig = Annotated[
    GrpoConfig | DrGrpoConfig | DapoConfig | RlooConfig | ReinforceConfig, Field(discriminator="kind")
]
