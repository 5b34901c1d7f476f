"""From the environment's configuration to an environment."""

from typing import assert_never, cast

from rollwright.environments import (
    ArithmeticDemonstrator,
    DemonstratingEnvironment,
    Tool,
    ToolEnvironment,
    ToolLimits,
    calculator_tool,
    tool_of,
)
from rollwright.recipes.build.named import ENVIRONMENT, load_named, make_named
from rollwright.recipes.config.world import CustomEnvironmentConfig, ToolEnvironmentConfig
from rollwright.recipes.errors import RecipeError
from rollwright.record import Environment

__all__ = ["build_environment", "demonstrating"]


def build_environment(config: ToolEnvironmentConfig | CustomEnvironmentConfig, *, answer_form: str) -> Environment:
    """The environment that episodes run in; a world brings its own.

    Args:
        config: which one.
        answer_form: how demonstrations write an answer; `{}` stands for it.
    """
    match config:
        case ToolEnvironmentConfig():
            return ToolEnvironment(
                tools=tuple(_tool(name) for name in config.tools),
                limits=ToolLimits(calls=config.max_calls, result_characters=config.max_result_characters),
                system_prompt=config.system_prompt,
                demonstrate=ArithmeticDemonstrator(tool_share=config.tool_share, answer_form=answer_form),
            )
        case CustomEnvironmentConfig():
            return cast("Environment", make_named(config.path, config.arguments, needs=ENVIRONMENT))
        case _:
            assert_never(config)


def demonstrating(environment: Environment) -> DemonstratingEnvironment:
    """The same environment as one that can show episodes.

    Raises:
        RecipeError: when it cannot, and a supervised stage needs it.
    """
    if not isinstance(environment, DemonstratingEnvironment):
        raise RecipeError(
            f"environment {environment.name} has no demonstrate(task, seed), which a stage of kind 'supervised' plays; "
            "add it, or leave the stage out."
        )
    return environment


def _tool(name: str) -> Tool:
    if name == "calculator":
        return calculator_tool()
    if ":" not in name:
        raise RecipeError(f"no tool {name!r}; there is calculator, or write package.module:function.")
    function = load_named(name)
    if not callable(function):
        raise RecipeError(f"tool {name!r} is a {type(function).__name__}; name a typed Python function.")
    return tool_of(function)
