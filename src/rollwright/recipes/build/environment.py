"""From the environment's configuration to an environment."""

import importlib
from collections.abc import Callable, Mapping
from types import UnionType
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

__all__ = ["VERIFIER", "build_environment", "demonstrating", "load_named", "make_named"]


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
            return cast("Environment", make_named(config.path, config.arguments, needs=_ENVIRONMENT))
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
    except (Exception, SystemExit) as error:  # a module from outside may raise anything
        raise RecipeError(f"{path!r} cannot be loaded: its module raises {_said(error)}. Mend the module.") from error


def make_named(path: str, arguments: Mapping[str, object], *, needs: Mapping[str, type | UnionType]) -> object:
    """What the callable that `package.module:name` names makes.

    Args:
        path: of the callable.
        arguments: of the call, by name.
        needs: what the result must have: attribute to type.

    Raises:
        RecipeError: when it cannot be loaded or called, or makes something else.
    """
    make = load_named(path)
    if not callable(make):
        raise RecipeError(f"{path!r} is a {type(make).__name__}; name something that can be called.")
    try:
        made: object = make(**arguments)
    except (Exception, SystemExit) as error:  # a callable from outside may raise anything
        raise RecipeError(f"{path!r} raises {_said(error)} when it is called with {dict(arguments)}.") from error
    for name, kind in needs.items():
        try:
            found: object = getattr(made, name)
        except (Exception, SystemExit) as error:  # so may a property
            raise RecipeError(
                f"{path!r} made a {type(made).__name__} whose {name} cannot be read: {_said(error)}; it needs "
                f"{', '.join(needs)}."
            ) from error
        if not isinstance(found, kind):
            wanted = "a method" if kind is _METHOD else f"of type {getattr(kind, '__name__', kind)}"
            raise RecipeError(
                f"{path!r} made a {type(made).__name__} whose {name} is a {type(found).__name__}; it must be {wanted}."
            )
    return made


_METHOD = cast("type", Callable)
_ENVIRONMENT: Mapping[str, type | UnionType] = {"name": str, "revision": str, "actors": Mapping, "open": _METHOD}
VERIFIER: Mapping[str, type | UnionType] = {
    "name": str,
    "revision": str,
    "scope": str,
    "deadline_s": int | float,
    "verify": _METHOD,
}
"""What a verifier from outside must have."""


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _tool(name: str) -> Tool:
    if name == "calculator":
        return calculator_tool()
    if ":" not in name:
        raise RecipeError(f"no tool {name!r}; there is calculator, or write package.module:function.")
    function = load_named(name)
    if not callable(function):
        raise RecipeError(f"tool {name!r} is a {type(function).__name__}; name a typed Python function.")
    return tool_of(function)
