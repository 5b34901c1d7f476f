"""From the environment's configuration to an environment."""

import importlib
from collections.abc import Callable
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
from rollwright.recipes.config.world import CustomEnvironmentConfig, EnvironmentConfig, ToolEnvironmentConfig
from rollwright.recipes.errors import RecipeError
from rollwright.record import Environment

__all__ = ["build_environment", "demonstrating", "load_named"]


def build_environment(config: EnvironmentConfig, *, answer_form: str) -> Environment:
    """The environment that episodes run in.

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
            make = cast("Callable[..., Environment]", load_named(config.path))
            return make(**config.arguments)
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


def load_named(path: str) -> object:
    """What `package.module:name` names.

    Raises:
        RecipeError: when it cannot be imported.
    """
    module, colon, name = path.partition(":")
    if not colon or not module or not name:
        raise RecipeError(f"{path!r} names nothing; write package.module:name.")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise RecipeError(
            f"{path!r} cannot be loaded: {error}. Is its package installed, and the name spelled so?"
        ) from error


def _tool(name: str) -> Tool:
    if name == "calculator":
        return calculator_tool()
    if ":" not in name:
        raise RecipeError(f"no tool {name!r}; there is calculator, or write package.module:function.")
    return tool_of(cast("Callable[..., object]", load_named(name)))
