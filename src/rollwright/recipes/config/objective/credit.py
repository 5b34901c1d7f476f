"""How rewards become advantages: one class an estimator, with its numbers.

A number without default is one that its publication names and does not give: leaving it out is refused when the
objective is built, with who kept it.
"""

from typing import Annotated, Literal

from pydantic import Field

from rollwright.recipes.config.strict import StrictConfig

__all__ = [
    "AnchorStateConfig",
    "BASE_CREDITS",
    "BatchScaledConfig",
    "BatchWhitenedConfig",
    "BestMinusSecondConfig",
    "COMPARING",
    "CallBroadcastConfig",
    "CompactionConfig",
    "CreditConfig",
    "GaeConfig",
    "GreedyBaselineConfig",
    "GroupCenteredConfig",
    "GroupStandardizedConfig",
    "ImplicitProcessConfig",
    "InformativeConfig",
    "LeaveOneOutConfig",
    "LengthWeightedConfig",
    "LevelGroupsConfig",
    "MaxRlConfig",
    "OptimalTokenConfig",
    "PassAtKConfig",
    "PolicyShiftConfig",
    "QualityConfig",
    "ReturnToGoConfig",
    "RunningBaselineConfig",
    "SCALINGS",
    "SegmentPenaltyConfig",
    "SelfTeacherConfig",
    "SuccessesConfig",
    "SurprisesConfig",
    "TaskPlusTeacherConfig",
    "TeacherGapConfig",
    "TokenNormalizedConfig",
    "TokenWhitenedConfig",
    "TurnGaeConfig",
    "UNFED",
    "VTraceConfig",
]

Unit = Annotated[float, Field(ge=0, le=1)]
BaseCredit = Literal["group_centered", "group_standardized", "leave_one_out"]
BASE_CREDITS: tuple[BaseCredit, ...] = ("group_centered", "group_standardized", "leave_one_out")


class ReturnToGoConfig(StrictConfig):
    """Discounted reward from each token on, minus a constant (M01)."""

    kind: Literal["return_to_go"] = "return_to_go"
    discount: Unit = 1.0
    baseline: float = 0.0
    """Verifier units; must not depend on what was sampled."""


class RunningBaselineConfig(StrictConfig):
    """Reward minus a running mean of its source (M02)."""

    kind: Literal["running_baseline"] = "running_baseline"
    decay: Unit = 0.95
    initial: float = 0.0


class LeaveOneOutConfig(StrictConfig):
    """Reward minus the mean of the other attempts (M03)."""

    kind: Literal["leave_one_out"] = "leave_one_out"


class GroupStandardizedConfig(StrictConfig):
    """Distance from the group's mean over its standard deviation (M04)."""

    kind: Literal["group_standardized"] = "group_standardized"
    ddof: int = Field(default=1, ge=0, le=1)
    """Of the standard deviation."""
    eps: float = Field(default=1e-6, ge=0)
    """Added to the standard deviation, verifier units."""


class GroupCenteredConfig(StrictConfig):
    """Distance from the group's mean (M05)."""

    kind: Literal["group_centered"] = "group_centered"


class BatchWhitenedConfig(StrictConfig):
    """Returns whitened over all tokens of the batch (M06)."""

    kind: Literal["batch_whitened"] = "batch_whitened"
    discount: Unit = 1.0
    eps: float = Field(default=1e-8, ge=0)


class TokenWhitenedConfig(StrictConfig):
    """Centred in the group, then whitened over tokens (M07)."""

    kind: Literal["group_centered_token_whitened"] = "group_centered_token_whitened"
    eps: float = Field(default=1e-8, ge=0)
    level_groups: Literal["zero", "whiten"] = "zero"
    """What becomes of groups with one reward level."""


class BatchScaledConfig(StrictConfig):
    """Centred in the group, then over the batch's standard deviation (M07)."""

    kind: Literal["group_centered_batch_scaled"] = "group_centered_batch_scaled"
    ddof: int = Field(default=0, ge=0, le=1)
    eps: float = Field(default=1e-4, ge=0)


class TokenNormalizedConfig(StrictConfig):
    """Rewards normalised over all tokens of the batch, without groups (M07)."""

    kind: Literal["token_normalized"] = "token_normalized"
    ddof: int = Field(default=0, ge=0, le=1)
    eps: float = Field(default=1e-5, ge=0)


class GreedyBaselineConfig(StrictConfig):
    """Return minus the reward of the greedy attempt (M08)."""

    kind: Literal["greedy_baseline"] = "greedy_baseline"


class LengthWeightedConfig(StrictConfig):
    """Reward minus the length-weighted mean of the group (M09)."""

    kind: Literal["length_weighted_baseline"] = "length_weighted_baseline"


class OptimalTokenConfig(StrictConfig):
    """Return minus the variance-minimal baseline of each token (M10)."""

    kind: Literal["optimal_token_baseline"] = "optimal_token_baseline"
    eps: float = Field(default=1e-8, ge=0)
    tail: Literal["zero", "own"] = "zero"
    """The baseline where one row of the group is left."""


class InformativeConfig(StrictConfig):
    """Centred in the group and scaled up for groups without contrast (M11)."""

    kind: Literal["informative_rescaled"] = "informative_rescaled"
    counting: Literal["groups", "nonzero_reward"] = "groups"
    norm: float = Field(default=1.0, gt=0)


class GaeConfig(StrictConfig):
    """Generalised advantage estimation over action tokens (M12, M13)."""

    kind: Literal["gae"] = "gae"
    discount: Unit = 1.0
    policy_lambda: Unit = 1.0
    value_lambda: Unit = 1.0
    length_alpha: float | None = Field(default=None, gt=0)
    """α of the length-adaptive λ = 1 - 1/(α·l), in place of policy_lambda."""
    truncation: Literal["bootstrap", "terminal"] = "bootstrap"
    """What stands behind the last token of a truncated row."""


class TurnGaeConfig(StrictConfig):
    """Generalised advantage estimation over turns (M14)."""

    kind: Literal["turn_gae"] = "turn_gae"
    discount: Unit = 1.0
    decay: Unit = 1.0


class VTraceConfig(StrictConfig):
    """V-trace targets and advantages (M45)."""

    kind: Literal["v_trace"] = "v_trace"
    discount: Unit = 1.0
    rho_bar: float = Field(default=1.0, gt=0)
    c_bar: float = Field(default=1.0, gt=0)


class AnchorStateConfig(StrictConfig):
    """Episode advantage plus that of steps which started from equal states (M15)."""

    kind: Literal["anchor_state"] = "anchor_state"
    discount: Unit = 0.95
    step_weight: float = Field(default=1.0, ge=0)
    scaling: Literal["none", "std"] = "none"
    eps: float = Field(default=1e-6, ge=0)
    episode_discount: Unit = 1.0


class CallBroadcastConfig(StrictConfig):
    """The episode's return for every call of it (M16)."""

    kind: Literal["calls"] = "calls"
    baseline: Literal["episode", "call"] = "episode"


class ImplicitProcessConfig(StrictConfig):
    """Leave-one-out on outcomes plus on an implicit reward model's token rewards (M19)."""

    kind: Literal["implicit_process"] = "implicit_process"
    beta: float = Field(default=0.05, gt=0)
    discount: Unit = 1.0
    form: Literal["paper", "released"] = "paper"


class LevelGroupsConfig(StrictConfig):
    """Entropy-weighted credit for groups with one reward level; mixed groups have `base` (M21)."""

    kind: Literal["level_groups"] = "level_groups"
    alpha: float | None = Field(default=None, gt=0)
    base: BaseCredit = "group_standardized"


class CompactionConfig(StrictConfig):
    """Generalised advantages over the rows of a compacted episode (M22)."""

    kind: Literal["compaction"] = "compaction"
    discount: Unit = 1.0
    length_alpha: float = Field(default=1.5, gt=0)
    length_over: Literal["row", "episode"] | None = None
    """What l of the length-adaptive λ counts."""


class TeacherGapConfig(StrictConfig):
    """Teacher minus student log-probability of each sampled token (M23, M24)."""

    kind: Literal["teacher_gap"] = "teacher_gap"
    bound: float = Field(default=20.0, gt=0)
    """Nats; a gap beyond it is held there."""


class TaskPlusTeacherConfig(StrictConfig):
    """Task credit plus a share of the clipped teacher gap (M25)."""

    kind: Literal["task_plus_teacher"] = "task_plus_teacher"
    eta: float | None = Field(default=None, ge=0)
    kappa: float | None = Field(default=None, gt=0)
    base: BaseCredit = "group_standardized"


class PolicyShiftConfig(StrictConfig):
    """What a small model's own RL did to each token's log-probability (M26)."""

    kind: Literal["policy_shift"] = "policy_shift"
    scale: float | None = Field(default=None, gt=0)


class SelfTeacherConfig(StrictConfig):
    """The policy's own score with a demonstration in context minus its score without (M27)."""

    kind: Literal["self_teacher_gap"] = "self_teacher_gap"


class SurprisesConfig(StrictConfig):
    """Task credit plus a bonus for right tokens that the informed self-teacher would not predict (M27)."""

    kind: Literal["reinforce_surprises"] = "reinforce_surprises"
    bonus: float | None = Field(default=None, ge=0)
    base: BaseCredit = "group_standardized"


class QualityConfig(StrictConfig):
    """Credit of passing rows redistributed by a grader's quality (M29)."""

    kind: Literal["quality_redistributed"] = "quality_redistributed"
    max_scale: float | None = Field(default=None, gt=0)


class SegmentPenaltyConfig(StrictConfig):
    """Flagged spans lose credit, and the mass is kept (M30)."""

    kind: Literal["segment_penalty"] = "segment_penalty"
    kappa: float | None = Field(default=None, gt=1)
    alpha_max: float | None = Field(default=None, gt=0)
    beta_min: float | None = Field(default=None, ge=0)
    base: BaseCredit = "group_centered"


class MaxRlConfig(StrictConfig):
    """Distance from the group's mean over that mean (M31)."""

    kind: Literal["maxrl"] = "maxrl"


class PassAtKConfig(StrictConfig):
    """What each attempt adds to the chance that one of k passes (M32)."""

    kind: Literal["pass_at_k"] = "pass_at_k"
    k: int = Field(default=2, ge=2)
    success_at: float = 1.0
    """Reward from which an attempt passes."""


class BestMinusSecondConfig(StrictConfig):
    """Only the best attempt is credited, by its lead over the second (M32)."""

    kind: Literal["best_minus_second"] = "best_minus_second"
    scaling: Literal["none", "std"] = "none"


class SuccessesConfig(StrictConfig):
    """Imitate attempts from a reward on, each prompt with equal mass (M34)."""

    kind: Literal["successes"] = "successes"
    threshold: float = 1.0


CreditConfig = Annotated[
    ReturnToGoConfig
    | RunningBaselineConfig
    | LeaveOneOutConfig
    | GroupStandardizedConfig
    | GroupCenteredConfig
    | BatchWhitenedConfig
    | TokenWhitenedConfig
    | BatchScaledConfig
    | TokenNormalizedConfig
    | GreedyBaselineConfig
    | LengthWeightedConfig
    | OptimalTokenConfig
    | InformativeConfig
    | GaeConfig
    | TurnGaeConfig
    | VTraceConfig
    | AnchorStateConfig
    | CallBroadcastConfig
    | ImplicitProcessConfig
    | LevelGroupsConfig
    | CompactionConfig
    | TeacherGapConfig
    | TaskPlusTeacherConfig
    | PolicyShiftConfig
    | SelfTeacherConfig
    | SurprisesConfig
    | QualityConfig
    | SegmentPenaltyConfig
    | MaxRlConfig
    | PassAtKConfig
    | BestMinusSecondConfig
    | SuccessesConfig,
    Field(discriminator="kind"),
]

COMPARING = frozenset(
    {
        "leave_one_out",
        "group_standardized",
        "group_centered",
        "group_centered_token_whitened",
        "group_centered_batch_scaled",
        "length_weighted_baseline",
        "optimal_token_baseline",
        "informative_rescaled",
        "anchor_state",
        "calls",
        "implicit_process",
        "level_groups",
        "task_plus_teacher",
        "reinforce_surprises",
        "quality_redistributed",
        "segment_penalty",
        "maxrl",
        "pass_at_k",
        "best_minus_second",
    }
)
"""Kinds that compare the attempts of a group, and give nothing to one alone."""

SCALINGS = {
    "group_standardized": "group_std",
    "level_groups": "group_std",
    "batch_whitened": "batch_std",
    "group_centered_token_whitened": "batch_std",
    "group_centered_batch_scaled": "batch_std",
    "token_normalized": "batch_std",
    "maxrl": "group_mean",
}
"""What each kind divides a centred reward by; those that are absent divide by nothing."""

UNFED = {
    "greedy_baseline": "the reward of a greedy attempt at each task",
    "gae": "a critic's values",
    "turn_gae": "a critic's values",
    "v_trace": "a critic's values",
    "compaction": "a critic's values",
    "implicit_process": "scores of an implicit reward model",
    "teacher_gap": "a teacher's scores",
    "task_plus_teacher": "a teacher's scores",
    "policy_shift": "scores of a small model before and after its own RL",
    "self_teacher_gap": "the policy's scores with a demonstration in its context",
    "reinforce_surprises": "the policy's scores with a demonstration in its context",
    "quality_redistributed": "a group grader's qualities",
    "segment_penalty": "flagged spans",
}
"""Kinds that need a stream which no stage of a run makes yet: they explain and pass their battery, and do not train."""
