"""The worlds that ship: a name, what it is, and the callable that makes it."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rollwright.recipes.build.named import check_arguments, load_named, make_named
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.keys import closest
from rollwright.recipes.worlds.world import World

__all__ = ["ADAPTED", "WORLDS", "WorldArguments", "arguments_of_world", "describe_world", "load_world", "world_path"]

_HERE = "rollwright.recipes.worlds"
WORLDS: Mapping[str, str] = MappingProxyType(
    {
        "arithmetic": f"{_HERE}.arithmetic:load",
        "interpreter": f"{_HERE}.interpreter:load",
        "repository": f"{_HERE}.repository:load",
        "terminal": f"{_HERE}.terminal:load",
        "reasoning_gym": f"{_HERE}.reasoning_gym:load",
        "search": f"{_HERE}.search:load",
        "grid": f"{_HERE}.grid:load",
        "network": f"{_HERE}.network:load",
        "repair": f"{_HERE}.repair:load",
        "web_site": f"{_HERE}.web_site:load",
        "rule_induction": f"{_HERE}.rule_induction:load",
        "text_world": f"{_HERE}.text_world:load",
        "workplace": f"{_HERE}.workplace:load",
        "dialogue": f"{_HERE}.dialogue:load",
        "injection": f"{_HERE}.injection:load",
        "clinic": f"{_HERE}.clinic:load",
        "lockstep": f"{_HERE}.lockstep:load",
        "training_desk": f"{_HERE}.training_desk:load",
    }
)
"""Name to `package.module:callable`; the callable's docstring begins with what the world is."""
ADAPTED: Mapping[str, str] = MappingProxyType(
    {
        "nemo_gym": f"{_HERE}.served:load_nemo_gym",
        "openenv": f"{_HERE}.served:load_open_env",
        "reset_step": f"{_HERE}.reset_step:load",
        "skyrl_gym": f"{_HERE}.step_text:load",
        "textarena": f"{_HERE}.textarena:load",
        "trl": f"{_HERE}.trl_class:load",
        "verifiers": f"{_HERE}.verifiers_package:load",
    }
)
"""Worlds of other people's environments, in the same form; their arguments say which environment it is."""


def describe_world(name: str) -> str:
    """What a world is, in a line: how the docstring of its callable begins."""
    return (load_named(world_path(name)).__doc__ or "").strip().partition("\n")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldArguments:
    """What a world takes by `environment.arguments`."""

    needed: tuple[str, ...]
    optional: Mapping[str, object]
    """With what stands where nothing is given."""


def arguments_of_world(name: str) -> WorldArguments:
    """The arguments of a world that ships or of an adapter, in the order in which it declares them."""
    made_by = load_named(world_path(name))
    parameters = inspect.signature(made_by).parameters.values() if callable(made_by) else ()
    return WorldArguments(
        needed=tuple(p.name for p in parameters if p.default is p.empty),
        optional=MappingProxyType({p.name: p.default for p in parameters if p.default is not p.empty}),
    )


def world_path(name: str) -> str:
    """The `package.module:name` of a world.

    Args:
        name: of one that ships, of an adapter, or a path, which is given back.

    Raises:
        RecipeError: for a name that there is not.
    """
    known = {**WORLDS, **ADAPTED}
    path = known.get(name, name)
    if ":" not in path:
        near = closest(name, tuple(known), 0.4)
        hint = f" Did you mean {near}?" if near else ""
        raise RecipeError(f"no world {name!r}; there are {', '.join(known)}, or write package.module:callable.{hint}")
    return path


def load_world(name: str, arguments: Mapping[str, object]) -> World:
    """Make a world.

    Args:
        name: of one that ships, or `package.module:name` of a callable that returns a `World`, or of a `World`.
        arguments: of the callable, by name.

    Raises:
        RecipeError: for a name that there is not, arguments that it does not take, or something that is no world.
    """
    path = world_path(name)
    named = load_named(path)
    if isinstance(named, World):
        if arguments:
            raise RecipeError(f"{path!r} is a World already and takes no arguments; name a callable that does.")
        return named
    if callable(named):
        check_arguments(path, named, arguments)
    made = make_named(path, arguments, needs={})
    if not isinstance(made, World):
        raise RecipeError(
            f"{path!r} made a {type(made).__name__}; it must return a rollwright.recipes.worlds.World. An environment "
            'alone is named by environment.kind = "custom".'
        )
    return made
