"""What every objective is made of: sections with the numbers of its parts, and the keys beside them.

A preset is a subclass with other defaults; a section that is written in part keeps the preset's other numbers.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast

from pydantic import BaseModel, Field, model_validator

from rollwright.recipes.config.objective.credit import COMPARING, SCALINGS, CreditConfig
from rollwright.recipes.config.objective.surrogate import (
    CorrectionConfig,
    NoCorrectionConfig,
    RatioName,
    SurrogateConfig,
)
from rollwright.recipes.config.strict import StrictConfig
from rollwright.recipes.flat import Plain

__all__ = ["Composition", "ComposedConfig", "DenominatorName", "Key", "ScalingName"]

DenominatorName = Literal[
    "token_mean",
    "response_mean",
    "fixed_length",
    "sequence_sum",
    "prompt_mean",
    "prompt_mean_of_tokens",
    "equal_siblings",
    "episode_mean",
]
ScalingName = Literal["none", "group_std", "batch_std", "group_mean"]
Key = Literal["dispatch", "task", "role", "parent", "state"]


class Composition(StrictConfig):
    """The parts of an objective."""

    UNDISCLOSED: ClassVar[Mapping[str, str]] = {}
    """Keys that the preset's publication leaves open, to who did; they have no default."""

    credit: CreditConfig
    ratio: RatioName
    surrogate: SurrogateConfig
    correction: CorrectionConfig = NoCorrectionConfig()
    """Of tokens whose proximal and behavior probabilities differ."""
    self_normalize: Literal["none", "token", "row"] = "none"
    """The correction over its mean in the update, by tokens or by rows (M46)."""
    comparison: tuple[Key, ...] = Field(default=("dispatch",), min_length=1)
    """Attempts are compared within equal keys: of one dispatch, of one task, role, parent or starting state."""
    reward_scaling: ScalingName = "none"
    """What a centred reward is divided by: fixed by the credit, and written out where recipes differ."""
    normalize_by_source: bool = False
    """Advantages of each task source to mean 0 and deviation 1 over its tokens in the batch (M33)."""
    denominator: DenominatorName = "token_mean"
    """What a token's weight is divided by (M72 to M76, M17)."""
    fixed_length_tokens: int | None = Field(default=None, ge=1, le=100_000_000)
    """L of `fixed_length`; left out it is rollout.max_episode_tokens, never the padded width."""
    source_targets: dict[str, float] = Field(default_factory=dict)
    """Task source to its share of the objective's mass (M77); empty: what its tokens or rows give it."""
    counting: Literal["structural", "kept"] = "structural"
    """Whether tokens that a correction cuts stay in the denominator (M80)."""
    kl_coefficient: float = Field(default=0.0, ge=0)
    """Of the KL to the stage's first weights; 0: no reference model."""
    kl_estimator: Literal["k1", "k2", "k3", "k3+", "corrected_k3"] = "k3"
    kl_place: Literal["loss", "step_rewards", "row_rewards", "advantages"] = "loss"
    """A term of the loss, or a penalty on each token: in its reward, in its row's, or after credit (M82)."""
    kl_target: float | None = Field(default=None, gt=0)
    """Nats a token; where given, the coefficient follows it over kl_horizon (M84)."""
    kl_horizon: float = Field(default=10000.0, gt=0)
    entropy_coefficient: float = Field(default=0.0, ge=0)
    """Of the entropy bonus, always a token mean (M85)."""
    entropy_target: float | None = Field(default=None, gt=0)
    """Nats; where given, the bonus acts below it and its coefficient moves by entropy_step (M86)."""
    entropy_step: float = Field(default=0.005, gt=0)
    entropy_cap: float = Field(default=1.0, gt=0)
    positive_nll_coefficient: float = Field(default=0.0, ge=0)
    """Of the likelihood of successful rows (M92)."""
    success_at: float = 1.0
    """Reward from which a row is successful."""

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, values: Any) -> Any:  # noqa: ANN401 - pydantic hands over what the person wrote
        """A section written in part keeps the preset's other numbers; the scaling follows from the credit."""
        if not isinstance(values, Mapping):
            return values
        written = dict(cast("Mapping[str, Plain]", values))
        for name, source in cls.UNDISCLOSED.items():
            if name not in written:
                raise ValueError(
                    f"{name} has no default: {source} did not disclose it; choose one, and it is written down as yours"
                )
        for name, field in cls.model_fields.items():
            part, default = written.get(name), field.default
            if not isinstance(part, Mapping) or not isinstance(default, BaseModel):
                continue
            base = default.model_dump(exclude_none=True)
            if part.get("kind", base.get("kind")) == base.get("kind"):
                written[name] = {**base, **part}
        written.setdefault("reward_scaling", SCALINGS.get(_credit_kind(cls, written.get("credit")), "none"))
        return written

    @model_validator(mode="after")
    def _parts_agree(self) -> "Composition":
        due = SCALINGS.get(self.credit.kind, "none")
        if self.reward_scaling != due:
            raise ValueError(
                f"reward_scaling is {self.reward_scaling!r} beside credit {self.credit.kind!r}, whose scaling is "
                f"{due!r}; write that, or choose another credit"
            )
        if self.fixed_length_tokens is not None and self.denominator != "fixed_length":
            raise ValueError("fixed_length_tokens is read by denominator 'fixed_length' only")
        return self

    @property
    def compares_attempts(self) -> bool:
        """Whether one attempt alone could not be credited."""
        return self.credit.kind in COMPARING


def _credit_kind(config: type[Composition], written: Plain | None) -> str:
    if isinstance(written, str):
        return written
    if isinstance(written, Mapping) and "kind" in written:
        return str(written["kind"])
    default = config.model_fields["credit"].default
    return str(default.model_dump()["kind"]) if isinstance(default, BaseModel) else ""


class ComposedConfig(Composition):
    """Any legal composition, written out part by part."""

    kind: Literal["composed"] = "composed"
