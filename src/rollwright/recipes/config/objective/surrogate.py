"""What is maximised of each token, and how tokens from other weights are corrected: one class a form."""

from typing import Annotated, Literal

from pydantic import Field

from rollwright.recipes.config.strict import StrictConfig

__all__ = [
    "AipoConfig",
    "BinaryDriftConfig",
    "CispoConfig",
    "ClipConfig",
    "ClipCovConfig",
    "CompositeConfig",
    "CorrectionConfig",
    "DecoupledConfig",
    "DoubleSidedMaskConfig",
    "DualClipConfig",
    "EarlConfig",
    "GeometricMeanConfig",
    "KlCovConfig",
    "LogLikelihoodConfig",
    "MaskedConfig",
    "MaskedImportanceConfig",
    "MassAdaptiveConfig",
    "MirrorDescentConfig",
    "NoCorrectionConfig",
    "OffPolicyConfig",
    "OuterClipConfig",
    "PolicyGradientConfig",
    "PrefixClipConfig",
    "RatioName",
    "RowRejectionConfig",
    "SequenceClipConfig",
    "SignedBoundsConfig",
    "SoftGateConfig",
    "SurrogateConfig",
    "ToprConfig",
    "TruncatedConfig",
    "UpdateRatioName",
    "VespoConfig",
]

UpdateRatioName = Literal["token", "sequence_mean", "sequence_token", "sequence_product", "prefix", "prefix_geometric"]
RatioName = Literal["none", "bypass", "bypass_sequence_product", UpdateRatioName]
"""none; current/behavior, a token or the whole product of a row; or current/proximal: a token; length-normalised a row,
and its token form; the whole product of a row; the product up to each token, and its geometric mean."""

Positive = Annotated[float, Field(gt=0)]


class PolicyGradientConfig(StrictConfig):
    """The log-probability times the advantage (M48, M56)."""

    kind: Literal["policy_gradient"] = "policy_gradient"


class LogLikelihoodConfig(StrictConfig):
    """The log-probability alone: imitation (M34)."""

    kind: Literal["log_likelihood"] = "log_likelihood"


class ClipConfig(StrictConfig):
    """PPO's clip (M49, M50)."""

    kind: Literal["clip"] = "clip"
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    """The ratio's lower bound is 1 - clip_low."""
    clip_high: Positive = 0.2
    """The ratio's upper bound is 1 + clip_high."""


class DualClipConfig(StrictConfig):
    """PPO's clip, and a bound for bad tokens with a large ratio (M51)."""

    kind: Literal["dual_clip"] = "dual_clip"
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    clip_high: Positive = 0.2
    dual: float = Field(default=3.0, gt=1)


class CispoConfig(StrictConfig):
    """A clamped, detached weight on the log-probability: every token keeps a gradient (M52)."""

    kind: Literal["cispo"] = "cispo"
    low: float = Field(default=0.0, ge=0, le=1)
    """Smallest weight."""
    high: float | None = Field(default=None, ge=1)
    """Largest weight: the bound itself, not 1 + ε."""


class SequenceClipConfig(StrictConfig):
    """The clip on one ratio a row (M53)."""

    kind: Literal["sequence_clip"] = "sequence_clip"
    clip_low: float = Field(default=3e-4, gt=0, lt=1)
    clip_high: Positive = 4e-4
    advantage: Literal["row", "mean_over_row"] = "row"
    """What becomes of advantages that differ within a row: refused, or averaged."""


class PrefixClipConfig(StrictConfig):
    """The clip on the ratio up to each token, in a band that widens with the position (M54)."""

    kind: Literal["prefix_clip"] = "prefix_clip"
    low: Positive = 0.025
    high: Positive = 0.05
    dual: Positive = 0.05
    power: float = 0.5


class SoftGateConfig(StrictConfig):
    """A sigmoid in place of the clip (M55)."""

    kind: Literal["soft_gate"] = "soft_gate"
    tau_positive: Positive = 1.0
    tau_negative: Positive = 1.05


class ClipCovConfig(StrictConfig):
    """PPO's clip; some tokens of high covariance are detached (M57)."""

    kind: Literal["clip_cov"] = "clip_cov"
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    clip_high: Positive = 0.2
    share: Positive = 2e-4
    low: float = 1.0
    high: float = 5.0


class KlCovConfig(StrictConfig):
    """A penalty on tokens of the highest covariance, without a clip (M58)."""

    kind: Literal["kl_cov"] = "kl_cov"
    share: Positive = 2e-4
    coefficient: Positive = 1.0


class ToprConfig(StrictConfig):
    """Bad rows taper off with their probability (M59)."""

    kind: Literal["topr"] = "topr"


class AipoConfig(StrictConfig):
    """The log-probability with a capped, detached weight of current over behavior (M60)."""

    kind: Literal["aipo"] = "aipo"
    cap: float | None = Field(default=None, ge=1)


class MaskedImportanceConfig(StrictConfig):
    """The log-probability with a detached weight; tokens outside the band are dropped (M61)."""

    kind: Literal["masked_importance"] = "masked_importance"
    low: float = Field(default=0.5, ge=0, le=1)
    high: float = Field(default=5.0, ge=1)
    kl_tau: float = Field(default=0.0, ge=0)


class DoubleSidedMaskConfig(StrictConfig):
    """Tokens strictly inside (1 - below, 1 + above) have the ratio's gradient, others none (M62)."""

    kind: Literal["double_sided_mask"] = "double_sided_mask"
    below: float = Field(default=0.3, gt=0, lt=1)
    above: Positive = 5.0


class BinaryDriftConfig(StrictConfig):
    """Tokens whose probability moved too far their own way are dropped; a drift term holds the rest (M63)."""

    kind: Literal["binary_drift"] = "binary_drift"
    low: Positive = 0.2
    high: Positive = 0.2
    drift: float = Field(default=1e-3, ge=0)


class OuterClipConfig(StrictConfig):
    """The clip with an upper bound that follows the entropy, inside a hard bound of the ratio (M64)."""

    kind: Literal["outer_clip"] = "outer_clip"
    clip_low: float | None = Field(default=None, gt=0, lt=1)
    outer_low: float | None = Field(default=None, gt=0, le=1)
    outer_high: float | None = Field(default=None, ge=1)
    entropy_target: Positive = 0.3
    step: float | None = Field(default=None, gt=0)
    largest: float | None = Field(default=None, gt=0)


class SignedBoundsConfig(StrictConfig):
    """Four bounds, by the sign of the advantage and the side (M65)."""

    kind: Literal["signed_bounds"] = "signed_bounds"
    positive_low: float = Field(default=0.2, ge=0, le=1)
    positive_high: float = Field(default=5.0, ge=1)
    negative_low: float = Field(default=0.2, ge=0, le=1)
    negative_high: float = Field(default=5.0, ge=1)
    outside: Literal["mask", "clip"] = "mask"


class VespoConfig(StrictConfig):
    """The log-probability with a detached weight of the row's ratio that peaks at 1 (M66)."""

    kind: Literal["vespo"] = "vespo"
    power_positive: Positive = 2.0
    rate_positive: Positive = 3.0
    power_negative: Positive = 3.0
    rate_negative: Positive = 2.0


class GeometricMeanConfig(StrictConfig):
    """The geometric mean of clipped token ratios (M67)."""

    kind: Literal["geometric_mean_clip"] = "geometric_mean_clip"
    log_clip: Positive = 0.4


class MassAdaptiveConfig(StrictConfig):
    """A Gaussian gate whose width follows probability and advantage (M68)."""

    kind: Literal["mass_adaptive_gate"] = "mass_adaptive_gate"
    sigma_base: Positive = 1.0
    alpha: float = Field(default=0.3, ge=0)
    beta: float = Field(default=0.03, ge=0)
    gate: Literal["detached", "differentiated"] | None = None
    """Whether the gate has a gradient of its own."""


class EarlConfig(StrictConfig):
    """PPO's clip on the tokens of the highest entropy alone."""

    kind: Literal["earl"] = "earl"
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    clip_high: Positive = 0.2
    share: float = Field(default=0.2, gt=0, le=1)
    """Of the update's tokens."""


class MirrorDescentConfig(StrictConfig):
    """Regression of the row's log-ratio on its advantage (M70)."""

    kind: Literal["mirror_descent"] = "mirror_descent"
    tau: float | None = Field(default=None, gt=0)


SurrogateConfig = Annotated[
    PolicyGradientConfig
    | LogLikelihoodConfig
    | ClipConfig
    | DualClipConfig
    | CispoConfig
    | SequenceClipConfig
    | PrefixClipConfig
    | SoftGateConfig
    | ClipCovConfig
    | KlCovConfig
    | ToprConfig
    | AipoConfig
    | MaskedImportanceConfig
    | DoubleSidedMaskConfig
    | BinaryDriftConfig
    | OuterClipConfig
    | SignedBoundsConfig
    | VespoConfig
    | GeometricMeanConfig
    | MassAdaptiveConfig
    | EarlConfig
    | MirrorDescentConfig,
    Field(discriminator="kind"),
]


class NoCorrectionConfig(StrictConfig):
    """Tokens count as they are."""

    kind: Literal["none"] = "none"


class DecoupledConfig(StrictConfig):
    """Each token weighs proximal over behavior (M44)."""

    kind: Literal["decoupled"] = "decoupled"


class TruncatedConfig(StrictConfig):
    """Proximal over behavior, cut at a cap (M39)."""

    kind: Literal["truncated"] = "truncated"
    cap: float = Field(default=2.0, ge=1)
    level: Literal["token", "sequence"] = "token"


class MaskedConfig(StrictConfig):
    """Proximal over behavior inside the band, 0 outside (M40)."""

    kind: Literal["masked"] = "masked"
    low: float = Field(default=0.5, ge=0, le=1)
    high: float = Field(default=2.0, ge=1)


class CompositeConfig(StrictConfig):
    """Tokens and rows dropped by several bounds of proximal over behavior (M41)."""

    kind: Literal["composite"] = "composite"


class RowRejectionConfig(StrictConfig):
    """Rows dropped by how far the policies lie apart (M42)."""

    kind: Literal["row_rejection"] = "row_rejection"
    statistic: Literal["geometric_mean", "k2_mean", "k3_mean", "k2_max", "minimum"] = "k3_mean"
    low: float | None = None
    """Of the geometric mean (typically 0.999), and of the smallest ratio of a row."""
    high: float | None = None
    """Of the geometric mean (typically 1.001), of k2 and of k3 (0.001 to 0.01)."""


class OffPolicyConfig(StrictConfig):
    """Tokens of negative advantage dropped in rows that lie too far from behavior (M43)."""

    kind: Literal["off_policy_mask"] = "off_policy_mask"
    delta: float | None = Field(default=None, ge=0)


CorrectionConfig = Annotated[
    NoCorrectionConfig
    | DecoupledConfig
    | TruncatedConfig
    | MaskedConfig
    | CompositeConfig
    | RowRejectionConfig
    | OffPolicyConfig,
    Field(discriminator="kind"),
]
