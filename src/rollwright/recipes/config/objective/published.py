"""Presets that carry a system's or a model's name: the published loss of each, as a composition."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from rollwright.recipes.config.objective.composition import Composition, DenominatorName, ScalingName
from rollwright.recipes.config.objective.credit import (
    CompactionConfig,
    CreditConfig,
    GaeConfig,
    GroupCenteredConfig,
    GroupStandardizedConfig,
    QualityConfig,
    TokenNormalizedConfig,
)
from rollwright.recipes.config.objective.surrogate import (
    BinaryDriftConfig,
    ClipConfig,
    CorrectionConfig,
    DecoupledConfig,
    DoubleSidedMaskConfig,
    MaskedConfig,
    MaskedImportanceConfig,
    OuterClipConfig,
    RatioName,
    SignedBoundsConfig,
    SurrogateConfig,
)

__all__ = [
    "ArealConfig",
    "CompactionRlConfig",
    "Glm5AgentsConfig",
    "Glm5ReasoningConfig",
    "GrpoRocConfig",
    "Intellect3Config",
    "MagicConfig",
    "MaiThinkingConfig",
    "MimoConfig",
    "PrimeRlConfig",
    "SaoConfig",
]


class GrpoRocConfig(Composition):
    """rStar2's GRPO-RoC: DAPO's loss on resampled groups (M04, M50, M73)."""

    kind: Literal["grpo_roc"] = "grpo_roc"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig(clip_high=0.28)
    denominator: DenominatorName = "token_mean"
    reward_scaling: ScalingName = "group_std"


class MagicConfig(Composition):
    """GRPO with an entropy bonus that acts below a target (M04, M49, M73, M86)."""

    kind: Literal["magic"] = "magic"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig()
    entropy_target: float | None = Field(default=0.2, gt=0)
    denominator: DenominatorName = "token_mean"
    reward_scaling: ScalingName = "group_std"


class ArealConfig(Composition):
    """AReaL: rewards normalised over tokens, decoupled clip (M07, M44, M69, M73)."""

    kind: Literal["areal"] = "areal"
    credit: CreditConfig = TokenNormalizedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig()
    correction: CorrectionConfig = DecoupledConfig()
    denominator: DenominatorName = "token_mean"
    reward_scaling: ScalingName = "batch_std"


class Intellect3Config(Composition):
    """INTELLECT-3: centred, tokens outside the ratio band dropped (M05, M61, M73)."""

    kind: Literal["intellect3"] = "intellect3"
    credit: CreditConfig = GroupCenteredConfig()
    ratio: RatioName = "bypass"
    surrogate: SurrogateConfig = MaskedImportanceConfig()
    denominator: DenominatorName = "token_mean"


class Glm5ReasoningConfig(Composition):
    """GLM-5's reasoning stage: IcePop's mask and clip-higher (M04, M40, M50)."""

    kind: Literal["glm5_reasoning"] = "glm5_reasoning"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig(clip_high=0.28)
    correction: CorrectionConfig = MaskedConfig()
    reward_scaling: ScalingName = "group_std"
    UNDISCLOSED: ClassVar[Mapping[str, str]] = {"denominator": "GLM-5's report"}


class Glm5AgentsConfig(Composition):
    """GLM-5's agent stage: a strict double-sided mask (M04, M62)."""

    kind: Literal["glm5_agents"] = "glm5_agents"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "bypass"
    surrogate: SurrogateConfig = DoubleSidedMaskConfig()
    reward_scaling: ScalingName = "group_std"
    UNDISCLOSED: ClassVar[Mapping[str, str]] = {"denominator": "GLM-5's report"}


class SaoConfig(Composition):
    """Single rollouts, a critic, a strict double-sided mask (M12, M13, M62); needs a critic."""

    kind: Literal["sao"] = "sao"
    credit: CreditConfig = GaeConfig(policy_lambda=0.95)
    ratio: RatioName = "bypass"
    surrogate: SurrogateConfig = DoubleSidedMaskConfig()
    denominator: DenominatorName = "token_mean"


class CompactionRlConfig(Composition):
    """Generalised advantages over compacted episodes, clipped (M22, M49); needs a critic."""

    kind: Literal["compaction_rl"] = "compaction_rl"
    credit: CreditConfig = CompactionConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig()
    denominator: DenominatorName = "token_mean"


class MimoConfig(Composition):
    """MiMo-V2.6: redistributed credit, four bounds, one mean a prompt (M29, M65, M76); needs a grader."""

    kind: Literal["mimo"] = "mimo"
    credit: CreditConfig = QualityConfig()
    ratio: RatioName = "bypass"
    surrogate: SurrogateConfig = SignedBoundsConfig()
    denominator: DenominatorName = "prompt_mean"


class MaiThinkingConfig(Composition):
    """MAI-Thinking-1: an upper bound that follows the entropy, inside a hard one (M64, M73)."""

    kind: Literal["mai_thinking"] = "mai_thinking"
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = OuterClipConfig()
    denominator: DenominatorName = "token_mean"
    UNDISCLOSED: ClassVar[Mapping[str, str]] = {"credit": "MAI-Thinking-1 (centred or standardised)"}


class PrimeRlConfig(Composition):
    """prime-rl's default: centred, a probability mask and a drift term (M05, M63, M73)."""

    kind: Literal["prime_rl"] = "prime_rl"
    credit: CreditConfig = GroupCenteredConfig()
    ratio: RatioName = "bypass"
    surrogate: SurrogateConfig = BinaryDriftConfig()
    denominator: DenominatorName = "token_mean"
