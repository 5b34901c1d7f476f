"""What a recipe names by `package.module:name`: loaded, called, and looked at before it is used."""

import importlib
from collections.abc import Callable, Mapping
from types import UnionType
from typing import cast

from rollwright.recipes.errors import RecipeError

__all__ = ["ENVIRONMENT", "VERIFIER", "load_named", "make_named"]

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


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
