"""The estimators that users know by name, as compositions: what a publication fixes stands here as a default.

What it leaves open beside that (truncation, lag, dynamic sampling, lengths) is the recipe's. What it names without its
value is `UNDISCLOSED` and has no default.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rollwright.recipes.config.objective.composition import ComposedConfig, Composition, DenominatorName, ScalingName
from rollwright.recipes.config.objective.credit import (
    AnchorStateConfig,
    BatchWhitenedConfig,
    CompactionConfig,
    CreditConfig,
    GaeConfig,
    GreedyBaselineConfig,
    GroupCenteredConfig,
    GroupStandardizedConfig,
    ImplicitProcessConfig,
    InformativeConfig,
    LeaveOneOutConfig,
    LengthWeightedConfig,
    QualityConfig,
    ReturnToGoConfig,
    TeacherGapConfig,
    TokenNormalizedConfig,
    TokenWhitenedConfig,
)
from rollwright.recipes.config.objective.surrogate import (
    BinaryDriftConfig,
    CispoConfig,
    ClipConfig,
    CorrectionConfig,
    DecoupledConfig,
    DoubleSidedMaskConfig,
    GeometricMeanConfig,
    MaskedConfig,
    MaskedImportanceConfig,
    MassAdaptiveConfig,
    OuterClipConfig,
    PolicyGradientConfig,
    PrefixClipConfig,
    RatioName,
    SequenceClipConfig,
    SignedBoundsConfig,
    SoftGateConfig,
    SurrogateConfig,
    ToprConfig,
    VespoConfig,
)

__all__ = [
    "ArealConfig",
    "CispoPresetConfig",
    "CompactionRlConfig",
    "CtpoConfig",
    "DapoConfig",
    "DecoupledPpoConfig",
    "DrGrpoConfig",
    "GigpoConfig",
    "Glm5AgentsConfig",
    "Glm5ReasoningConfig",
    "GmpoConfig",
    "GpgConfig",
    "GrpoConfig",
    "GrpoRocConfig",
    "GspoConfig",
    "Intellect3Config",
    "MagicConfig",
    "MaiThinkingConfig",
    "MaspoConfig",
    "MimoConfig",
    "MopdConfig",
    "ObjectiveConfig",
    "OpdConfig",
    "OpoConfig",
    "PpoConfig",
    "PrimeConfig",
    "PrimeRlConfig",
    "ReinforceConfig",
    "ReinforcePlusPlusBaselineConfig",
    "ReinforcePlusPlusConfig",
    "RemaxConfig",
    "RlooConfig",
    "SaoConfig",
    "SapoConfig",
    "ToprPresetConfig",
    "VapoConfig",
    "VespoPresetConfig",
]


class ReinforceConfig(Composition):
    """Reward minus a constant; plain policy gradient (M01, M56)."""

    kind: Literal["reinforce"] = "reinforce"
    credit: CreditConfig = ReturnToGoConfig()
    ratio: RatioName = "none"
    surrogate: SurrogateConfig = PolicyGradientConfig()
    denominator: DenominatorName = "sequence_sum"


class RlooConfig(Composition):
    """Reward minus the mean of the other attempts; plain policy gradient (M03, M56)."""

    kind: Literal["rloo"] = "rloo"
    credit: CreditConfig = LeaveOneOutConfig()
    ratio: RatioName = "none"
    surrogate: SurrogateConfig = PolicyGradientConfig()
    denominator: DenominatorName = "sequence_sum"


class GrpoConfig(Composition):
    """Standardised within the group, clipped, one mean a response (M04, M49, M72)."""

    kind: Literal["grpo"] = "grpo"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig()
    denominator: DenominatorName = "response_mean"
    reward_scaling: ScalingName = "group_std"


class DrGrpoConfig(Composition):
    """Centred within the group, clipped, over a fixed length (M05, M49, M74)."""

    kind: Literal["dr_grpo"] = "dr_grpo"
    credit: CreditConfig = GroupCenteredConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig()
    denominator: DenominatorName = "fixed_length"


class DapoConfig(Composition):
    """Standardised within the group, with a wider upper clip and a token mean (M04, M50, M73)."""

    kind: Literal["dapo"] = "dapo"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig(clip_high=0.28)
    denominator: DenominatorName = "token_mean"
    reward_scaling: ScalingName = "group_std"


class GspoConfig(Composition):
    """One length-normalised ratio a response, clipped (M04, M37, M53)."""

    kind: Literal["gspo"] = "gspo"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "sequence_mean"
    surrogate: SurrogateConfig = SequenceClipConfig()
    denominator: DenominatorName = "response_mean"
    reward_scaling: ScalingName = "group_std"


class CispoPresetConfig(Composition):
    """A clamped, detached weight: every token keeps a gradient (M04, M52)."""

    kind: Literal["cispo"] = "cispo"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = CispoConfig()
    denominator: DenominatorName = "token_mean"
    reward_scaling: ScalingName = "group_std"


class ReinforcePlusPlusConfig(Composition):
    """Returns whitened over the batch, clipped (M06, M49)."""

    kind: Literal["reinforce_plus_plus"] = "reinforce_plus_plus"
    credit: CreditConfig = BatchWhitenedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig()
    denominator: DenominatorName = "token_mean"
    reward_scaling: ScalingName = "batch_std"


class ReinforcePlusPlusBaselineConfig(Composition):
    """Centred within the group, whitened over the batch, clipped (M07, M49)."""

    kind: Literal["reinforce_plus_plus_baseline"] = "reinforce_plus_plus_baseline"
    credit: CreditConfig = TokenWhitenedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig()
    denominator: DenominatorName = "token_mean"
    reward_scaling: ScalingName = "batch_std"


class RemaxConfig(Composition):
    """Return minus the greedy attempt's reward (M08); needs that attempt."""

    kind: Literal["remax"] = "remax"
    credit: CreditConfig = GreedyBaselineConfig()
    ratio: RatioName = "none"
    surrogate: SurrogateConfig = PolicyGradientConfig()
    denominator: DenominatorName = "sequence_sum"


class OpoConfig(Composition):
    """Reward minus the length-weighted mean of the group (M09)."""

    kind: Literal["opo"] = "opo"
    credit: CreditConfig = LengthWeightedConfig()
    ratio: RatioName = "none"
    surrogate: SurrogateConfig = PolicyGradientConfig()
    denominator: DenominatorName = "token_mean"


class GpgConfig(Composition):
    """Centred within the group, scaled up for groups without contrast (M11, M56)."""

    kind: Literal["gpg"] = "gpg"
    credit: CreditConfig = InformativeConfig()
    ratio: RatioName = "none"
    surrogate: SurrogateConfig = PolicyGradientConfig()
    denominator: DenominatorName = "token_mean"


class PpoConfig(Composition):
    """Generalised advantages of a critic, clipped (M12, M49); needs a critic."""

    kind: Literal["ppo"] = "ppo"
    credit: CreditConfig = GaeConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig()
    denominator: DenominatorName = "token_mean"


class VapoConfig(Composition):
    """Length-adaptive advantages of a critic, clip-higher, likelihood of successes (M13, M50, M92); needs a critic."""

    kind: Literal["vapo"] = "vapo"
    credit: CreditConfig = GaeConfig(length_alpha=0.05)
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig(clip_high=0.28)
    positive_nll_coefficient: float = Field(default=0.1, ge=0)
    denominator: DenominatorName = "token_mean"


class SapoConfig(Composition):
    """A sigmoid gate in place of the clip (M04, M55)."""

    kind: Literal["sapo"] = "sapo"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = SoftGateConfig()
    denominator: DenominatorName = "response_mean"
    reward_scaling: ScalingName = "group_std"


class GmpoConfig(Composition):
    """The geometric mean of clipped token ratios (M04, M67)."""

    kind: Literal["gmpo"] = "gmpo"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = GeometricMeanConfig()
    denominator: DenominatorName = "response_mean"
    reward_scaling: ScalingName = "group_std"


class ToprPresetConfig(Composition):
    """Good rows as they are, bad rows tapered by their probability (M05, M59)."""

    kind: Literal["topr"] = "topr"
    credit: CreditConfig = GroupCenteredConfig()
    ratio: RatioName = "bypass_sequence_product"
    surrogate: SurrogateConfig = ToprConfig()
    denominator: DenominatorName = "sequence_sum"


class DecoupledPpoConfig(Composition):
    """The clip around the proximal policy, weighed by proximal over behavior (M04, M44, M69)."""

    kind: Literal["decoupled_ppo"] = "decoupled_ppo"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig()
    correction: CorrectionConfig = DecoupledConfig()
    denominator: DenominatorName = "token_mean"
    reward_scaling: ScalingName = "group_std"


class CtpoConfig(Composition):
    """The clip on the ratio up to each token (M04, M38, M54)."""

    kind: Literal["ctpo"] = "ctpo"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "prefix"
    surrogate: SurrogateConfig = PrefixClipConfig()
    denominator: DenominatorName = "token_mean"
    reward_scaling: ScalingName = "group_std"


class GigpoConfig(Composition):
    """Episode advantage plus that of steps from equal states (M15, M49)."""

    kind: Literal["gigpo"] = "gigpo"
    credit: CreditConfig = AnchorStateConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig()
    UNDISCLOSED: ClassVar[Mapping[str, str]] = {"denominator": "GiGPO (arXiv:2505.10978)"}


class MaspoConfig(Composition):
    """A Gaussian gate whose width follows probability and advantage (M04, M68)."""

    kind: Literal["maspo"] = "maspo"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = MassAdaptiveConfig()
    denominator: DenominatorName = "token_mean"
    reward_scaling: ScalingName = "group_std"


class VespoPresetConfig(Composition):
    """A detached weight of the row's ratio that peaks at 1 (M04, M66)."""

    kind: Literal["vespo"] = "vespo"
    credit: CreditConfig = GroupStandardizedConfig()
    ratio: RatioName = "sequence_product"
    surrogate: SurrogateConfig = VespoConfig()
    denominator: DenominatorName = "token_mean"
    reward_scaling: ScalingName = "group_std"


class PrimeConfig(Composition):
    """Outcome and implicit process rewards, leave-one-out (M19, M49); needs a reward model."""

    kind: Literal["prime"] = "prime"
    credit: CreditConfig = ImplicitProcessConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig()
    denominator: DenominatorName = "token_mean"


class OpdConfig(Composition):
    """On-policy distillation: the teacher's gap as advantage (M23); needs a teacher."""

    kind: Literal["opd"] = "opd"
    credit: CreditConfig = TeacherGapConfig()
    ratio: RatioName = "none"
    surrogate: SurrogateConfig = PolicyGradientConfig()
    correction: CorrectionConfig = DecoupledConfig()
    denominator: DenominatorName = "token_mean"


class MopdConfig(Composition):
    """Multi-teacher distillation, clipped and masked (M24, M44, M49); needs teachers."""

    kind: Literal["mopd"] = "mopd"
    credit: CreditConfig = TeacherGapConfig()
    ratio: RatioName = "token"
    surrogate: SurrogateConfig = ClipConfig()
    correction: CorrectionConfig = MaskedConfig()
    UNDISCLOSED: ClassVar[Mapping[str, str]] = {"denominator": "Nemotron 3 Ultra's report"}


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


ObjectiveConfig = Annotated[
    ReinforceConfig
    | RlooConfig
    | GrpoConfig
    | DrGrpoConfig
    | DapoConfig
    | GspoConfig
    | CispoPresetConfig
    | ReinforcePlusPlusConfig
    | ReinforcePlusPlusBaselineConfig
    | RemaxConfig
    | OpoConfig
    | GpgConfig
    | PpoConfig
    | VapoConfig
    | SapoConfig
    | GmpoConfig
    | ToprPresetConfig
    | DecoupledPpoConfig
    | CtpoConfig
    | GigpoConfig
    | MaspoConfig
    | VespoPresetConfig
    | PrimeConfig
    | OpdConfig
    | MopdConfig
    | GrpoRocConfig
    | MagicConfig
    | ArealConfig
    | Intellect3Config
    | Glm5ReasoningConfig
    | Glm5AgentsConfig
    | SaoConfig
    | CompactionRlConfig
    | MimoConfig
    | MaiThinkingConfig
    | PrimeRlConfig
    | ComposedConfig,
    Field(discriminator="kind"),
]
