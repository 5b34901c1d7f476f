"""The environment and what judges its episodes."""

from typing import Annotated, Literal

from pydantic import Field

from rollwright.recipes.config.judges import (
    EquivalenceJudgeConfig,
    GradeJudgeConfig,
    PairwiseJudgeConfig,
    RewardModelConfig,
    RubricJudgeConfig,
)
from rollwright.recipes.config.strict import StrictConfig
from rollwright.recipes.config.verifier_parts import MoreVerifierConfig, WeightedPart

__all__ = [
    "CustomEnvironmentConfig",
    "CustomVerifierConfig",
    "EnvironmentConfig",
    "ExactVerifierConfig",
    "FormatVerifierConfig",
    "MathVerifierConfig",
    "McpEnvironmentConfig",
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
    call_timeout_s: float = Field(default=10.0, gt=0, le=100_000)
    """Of one call; then status `timeout`."""
    tool_share: float = Field(default=0.4, ge=0, le=1)
    """Share of demonstrations that call the tool; the others answer directly."""


class McpEnvironmentConfig(StrictConfig):
    """Several turns with the tools of a server that speaks the Model Context Protocol (the extra `mcp`)."""

    kind: Literal["mcp"] = "mcp"
    command: tuple[str, ...] = ()
    """Starts a server that speaks over its standard streams; or else `url`."""
    url: str = ""
    """Of a server that listens (streamable HTTP)."""
    connection: Literal["episode", "shared"] = "episode"
    """One for each episode, or one for all: for tools that keep no state."""
    tools: tuple[str, ...] = ()
    """Names of those that are offered to the policy; empty: all."""
    system_prompt: str = ""
    max_calls: int = Field(default=4, ge=0, le=1_000_000)
    max_result_characters: int = Field(default=200, ge=16, le=10_000_000)
    call_timeout_s: float = Field(default=10.0, gt=0, le=100_000)
    """Of one call; then status `timeout`."""
    demonstrate: str = ""
    """`package.module:function` of (task, seed) that gives the turns of a demonstration; empty: there are none."""


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
    ToolEnvironmentConfig | McpEnvironmentConfig | WorldEnvironmentConfig | CustomEnvironmentConfig,
    Field(discriminator="kind"),
]


class ExactVerifierConfig(WeightedPart):
    """The answer's text equals the gold text."""

    kind: Literal["exact"] = "exact"


class NumericVerifierConfig(WeightedPart):
    """The answer is the same number as the gold one."""

    kind: Literal["numeric"] = "numeric"
    tolerance: float = Field(default=0.0, ge=0)
    """Relative; 0 compares exactly."""


class MathVerifierConfig(WeightedPart):
    """The answer is mathematically equal to the gold one (math-verify, in processes that can be killed)."""

    kind: Literal["math"] = "math"
    timeout_s: float = Field(default=5.0, gt=0, le=100_000)


class FormatVerifierConfig(WeightedPart):
    """The last turn has exactly one answer in the asked form."""

    kind: Literal["format"] = "format"
    weight: float = 0.0


class CustomVerifierConfig(WeightedPart):
    """A verifier from outside the project."""

    kind: Literal["custom"] = "custom"
    path: str
    """`package.module:callable`, which returns a `record.Verifier`."""


class WorldVerifierConfig(WeightedPart):
    """All verifiers of the environment's world, with their own weights and roles, times this weight."""

    kind: Literal["world"] = "world"


VerifierPartConfig = Annotated[
    ExactVerifierConfig
    | NumericVerifierConfig
    | MathVerifierConfig
    | FormatVerifierConfig
    | MoreVerifierConfig
    | GradeJudgeConfig
    | EquivalenceJudgeConfig
    | RubricJudgeConfig
    | PairwiseJudgeConfig
    | RewardModelConfig
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
