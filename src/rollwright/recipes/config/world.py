"""The environment and what judges its episodes."""

from typing import Annotated, Literal

from pydantic import Field

from rollwright.recipes.config.strict import StrictConfig

__all__ = [
    "CustomEnvironmentConfig",
    "CustomVerifierConfig",
    "EnvironmentConfig",
    "ExactVerifierConfig",
    "FormatVerifierConfig",
    "MathVerifierConfig",
    "NumericVerifierConfig",
    "ToolEnvironmentConfig",
    "VerifierConfig",
    "VerifierPartConfig",
    "WorldEnvironmentConfig",
    "WorldVerifierConfig",
]


class ToolEnvironmentConfig(StrictConfig):
    """Several turns with tools; the episode ends with a turn that calls none."""

    kind: Literal["tool"] = "tool"
    tools: tuple[str, ...] = ("calculator",)
    """`calculator`, or `package.module:function` of typed Python functions."""
    system_prompt: str = ""
    """Empty: no system turn, unless the model's template adds one."""
    max_calls: int = Field(default=4, ge=0, le=1_000_000)
    max_result_characters: int = Field(default=200, ge=16, le=10_000_000)
    tool_share: float = Field(default=0.4, ge=0, le=1)
    """Share of demonstrations that call the tool; the others answer directly."""


class CustomEnvironmentConfig(StrictConfig):
    """An environment from outside the project."""

    kind: Literal["custom"] = "custom"
    path: str
    """`package.module:callable`, which returns a `record.Environment`."""
    arguments: dict[str, int | float | str | bool] = {}


class WorldEnvironmentConfig(StrictConfig):
    """A world: an environment that brings its tasks and verifiers, for tasks and parts of kind `world`."""

    kind: Literal["world"] = "world"
    name: str
    """Of a world that ships (`rollwright env list`), or `package.module:callable`, which returns a `World`."""
    arguments: dict[str, int | float | str | bool] = {}


EnvironmentConfig = Annotated[
    ToolEnvironmentConfig | WorldEnvironmentConfig | CustomEnvironmentConfig, Field(discriminator="kind")
]


class _Weighted(StrictConfig):
    weight: float = 1.0
    """Of this part in the reward; the raw value is kept beside it."""


class ExactVerifierConfig(_Weighted):
    """The answer's text equals the gold text."""

    kind: Literal["exact"] = "exact"


class NumericVerifierConfig(_Weighted):
    """The answer is the same number as the gold one."""

    kind: Literal["numeric"] = "numeric"
    tolerance: float = Field(default=0.0, ge=0)
    """Relative; 0 compares exactly."""


class MathVerifierConfig(_Weighted):
    """The answer is mathematically equal to the gold one (math-verify, in processes that can be killed)."""

    kind: Literal["math"] = "math"
    timeout_s: float = Field(default=5.0, gt=0, le=100_000)


class FormatVerifierConfig(_Weighted):
    """The last turn has exactly one answer in the asked form."""

    kind: Literal["format"] = "format"
    weight: float = 0.0


class CustomVerifierConfig(_Weighted):
    """A verifier from outside the project."""

    kind: Literal["custom"] = "custom"
    path: str
    """`package.module:callable`, which returns a `record.Verifier`."""


class WorldVerifierConfig(_Weighted):
    """All verifiers of the environment's world, with their own weights and roles, times this weight."""

    kind: Literal["world"] = "world"


VerifierPartConfig = Annotated[
    ExactVerifierConfig
    | NumericVerifierConfig
    | MathVerifierConfig
    | FormatVerifierConfig
    | WorldVerifierConfig
    | CustomVerifierConfig,
    Field(discriminator="kind"),
]


class VerifierConfig(StrictConfig):
    """A weighted sum of parts; the raw parts are kept."""

    parts: tuple[VerifierPartConfig, ...] = Field(default=(ExactVerifierConfig(),), min_length=1)
    answer_form: Literal["marker", "boxed"] = "marker"
    """How the answer stands in the last turn: after `answer_marker`, or in `\\boxed{}`."""
    answer_marker: str = "answer:"
    success_threshold: float = 1.0
    """A reward of at least this is a success."""
