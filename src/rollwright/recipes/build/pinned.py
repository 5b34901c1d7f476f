"""Digests of what a run is made from besides its recipe: code of one's own, and weights that others trained."""

import hashlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rollwright.environments import McpEnvironment
from rollwright.evidence import UNKNOWN
from rollwright.recipes.build.machine import package_sha256, sources_sha256
from rollwright.recipes.build.model import weights_path
from rollwright.recipes.build.world import BuiltWorld
from rollwright.recipes.config.model import FreshModelConfig, ModelConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.flat import Plain, flatten

__all__ = ["code_digests", "parent_sha256", "snapshot_of"]

_ROOMS = ("algorithms", "environments", "evaluation", "rendering", "rollout", "sandboxes", "tasks", "verifiers")
"""Rooms whose code decides what a run does; each has a digest of its own, so that a change is named."""
_NAMED = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_]\w*")
_WEIGHTS = ("*.safetensors", "*.gguf", "config.json")


def code_digests(recipe: RecipeConfig) -> Mapping[str, str]:
    """`code/ROOM` and `module/NAME` to a digest of their sources.

    Args:
        recipe: the modules that it names by `package.module:name`, and those of its worlds, are among them.
    """
    found = {f"code/{room}": package_sha256(room) for room in _ROOMS}
    found["code/worlds"] = package_sha256("recipes/worlds")
    for module in sorted(set(_modules(recipe.model_dump(mode="json")))):
        sha256 = _module_sha256(module)
        if sha256 is not None:
            found[f"module/{module}"] = sha256
    return found


def parent_sha256(model: ModelConfig) -> str | None:
    """Of the files of the weights that a model begins with; None where it is made."""
    if isinstance(model, FreshModelConfig):
        return None
    path = weights_path(model)
    folder = path.parent if path.is_file() else path
    names = [path] if path.is_file() else sorted(p for pattern in _WEIGHTS for p in folder.glob(pattern))
    whole = hashlib.sha256()
    for name in names:
        with name.open("rb") as file:
            whole.update(f"{name.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def snapshot_of(world: BuiltWorld) -> str | None:
    """Of what episodes look up outside of themselves; None: they look up nothing."""
    if isinstance(world.environment, McpEnvironment):
        return UNKNOWN
    if world.world is None:
        return None
    return world.world.snapshot or (UNKNOWN if world.world.server else None)


def _modules(values: Mapping[str, Plain]) -> Iterator[str]:
    for _, value in flatten(values):
        for text in value if isinstance(value, list | tuple) else (value,):
            named = _NAMED.fullmatch(text) if isinstance(text, str) else None
            if named is not None and not named[1].startswith("rollwright."):
                yield named[1]


def _module_sha256(module: str) -> str | None:
    """None for what is no module after all."""
    try:
        top = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return None
    if top is None:
        return None
    if top.origin is None or not Path(top.origin).is_file():
        return UNKNOWN
    origin = Path(top.origin)
    if origin.name == "__init__.py":
        return sources_sha256(origin.parent)
    return hashlib.sha256(origin.read_bytes()).hexdigest()
