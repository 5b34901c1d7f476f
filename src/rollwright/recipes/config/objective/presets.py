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
    CreditConfig,
    GaeConfig,
    GreedyBaselineConfig,
    GroupCenteredConfig,
    GroupStandardizedConfig,
    ImplicitProcessConfig,
    InformativeConfig,
    LeaveOneOutConfig,
    LengthWeightedConfig,
    ReturnToGoConfig,
    TeacherGapConfig,
    TokenWhitenedConfig,
)
from rollwright.recipes.config.objective.published import (
    ArealConfig,
    CompactionRlConfig,
    Glm5AgentsConfig,
    Glm5ReasoningConfig,
    GrpoRocConfig,
    Intellect3Config,
    MagicConfig,
    MaiThinkingConfig,
    MimoConfig,
    PrimeRlConfig,
    SaoConfig,
)
from rollwright.recipes.config.objective.surrogate import (
    CispoConfig,
    ClipConfig,
    CorrectionConfig,
    DecoupledConfig,
    GeometricMeanConfig,
    MaskedConfig,
    MassAdaptiveConfig,
    PolicyGradientConfig,
    PrefixClipConfig,
    RatioName,
    SequenceClipConfig,
    SoftGateConfig,
    SurrogateConfig,
    ToprConfig,
    VespoConfig,
)

__all__ = [
    "CispoPresetConfig",
    "CtpoConfig",
    "DapoConfig",
    "DecoupledPpoConfig",
    "DrGrpoConfig",
    "GigpoConfig",
    "GmpoConfig",
    "GpgConfig",
    "GrpoConfig",
    "GspoConfig",
    "MaspoConfig",
    "MopdConfig",
    "ObjectiveConfig",
    "OpdConfig",
    "OpoConfig",
    "PpoConfig",
    "PrimeConfig",
    "ReinforceConfig",
    "ReinforcePlusPlusBaselineConfig",
    "ReinforcePlusPlusConfig",
    "RemaxConfig",
    "RlooConfig",
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
