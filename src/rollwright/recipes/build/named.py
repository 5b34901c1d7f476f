"""What a recipe names by `package.module:name`: loaded, called, and looked at before it is used."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from types import UnionType
from typing import cast, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rollwright.recipes.errors import RecipeError

__all__ = ["ENVIRONMENT", "VERIFIER", "check_arguments", "load_named", "make_named"]

_METHOD = cast("type", Callable)
ENVIRONMENT: Mapping[str, type | UnionType] = {"name": str, "revision": str, "actors": Mapping, "open": _METHOD}
VERIFIER: Mapping[str, type | UnionType] = {
    "name": str,
    "revision": str,
    "scope": str,
    "deadline_s": int | float,
    "verify": _METHOD,
}
"""What a verifier from outside must have."""


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
        raise RecipeError(f"{path!r}, called with {dict(arguments)}, raises {_said(error)}") from error
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


def check_arguments(path: str, make: Callable[..., object], arguments: Mapping[str, object]) -> None:
    """Hold arguments to the names and types that a callable declares.

    Args:
        path: of the callable.
        make: the callable; what it does not annotate, it takes as it comes.
        arguments: of the call, by name.

    Raises:
        RecipeError: for the first that does not fit, with what is allowed.
    """
    try:
        parameters, hints = inspect.signature(make).parameters, get_type_hints(make)
    except (TypeError, ValueError, NameError):
        return  # It says nothing of itself: the call will tell.
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name, value in arguments.items():
        if name not in parameters:
            if takes_any:
                continue
            raise RecipeError(f"{path!r} takes no argument {name!r}; it takes {', '.join(parameters) or 'none'}.")
        if name in hints:
            try:
                TypeAdapter[object](hints[name], config=_STRICT).validate_python(value)
            except ValidationError as error:
                fault = error.errors(include_url=False)[0]["msg"]
                raise RecipeError(f"{path!r}: argument {name} is {value!r}. {fault}.") from None


_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
