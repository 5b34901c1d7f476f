"""From the environment's configuration to an environment."""

import importlib.util
from typing import assert_never, cast

from rollwright.environments import (
    ArithmeticDemonstrator,
    DemonstrateFn,
    DemonstratingEnvironment,
    EnvironmentSetupError,
    McpEnvironment,
    McpServer,
    McpSettings,
    Tool,
    ToolEnvironment,
    ToolLimits,
    calculator_tool,
    tool_of,
)
from rollwright.recipes.build.named import ENVIRONMENT, load_named, make_named
from rollwright.recipes.config.world import CustomEnvironmentConfig, McpEnvironmentConfig, ToolEnvironmentConfig
from rollwright.recipes.errors import RecipeError
from rollwright.record import Environment

__all__ = ["build_environment", "demonstrating"]


def build_environment(
    config: ToolEnvironmentConfig | McpEnvironmentConfig | CustomEnvironmentConfig, *, answer_form: str
) -> Environment:
    """The environment that episodes run in; a world brings its own.

    Args:
        config: which one.
        answer_form: how demonstrations write an answer; `{}` stands for it.
    """
    match config:
        case ToolEnvironmentConfig():
            return ToolEnvironment(
                tools=tuple(_tool(name) for name in config.tools),
                limits=_limits(config),
                system_prompt=config.system_prompt,
                demonstrate=ArithmeticDemonstrator(tool_share=config.tool_share, answer_form=answer_form),
            )
        case McpEnvironmentConfig():
            return _mcp(config)
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


def _limits(config: ToolEnvironmentConfig | McpEnvironmentConfig) -> ToolLimits:
    return ToolLimits(
        calls=config.max_calls,
        result_characters=config.max_result_characters,
        call_timeout_s=config.call_timeout_s,
    )


def _mcp(config: McpEnvironmentConfig) -> McpEnvironment:
    if importlib.util.find_spec("mcp") is None:
        raise RecipeError("the package mcp is not installed; pip install 'rollwright[mcp]'.")
    settings = McpSettings(
        connection=config.connection,
        tools=config.tools,
        limits=_limits(config),
        system_prompt=config.system_prompt,
    )
    demonstrate: DemonstrateFn | None = None
    if config.demonstrate:
        found = load_named(config.demonstrate)
        if not callable(found):
            raise RecipeError(f"environment.demonstrate names a {type(found).__name__}; name a function (task, seed).")
        demonstrate = cast("DemonstrateFn", found)
    try:
        return McpEnvironment(McpServer(command=config.command, url=config.url), settings, demonstrate=demonstrate)
    except EnvironmentSetupError as error:
        raise RecipeError(f"environment: {error}") from error


def _tool(name: str) -> Tool:
    if name == "calculator":
        return calculator_tool()
    if ":" not in name:
        raise RecipeError(f"no tool {name!r}; there is calculator, or write package.module:function.")
    function = load_named(name)
    if not callable(function):
        raise RecipeError(f"tool {name!r} is a {type(function).__name__}; name a typed Python function.")
    return tool_of(function)
