"""The recipe of a stored run beside the defaults of this version: what would mean another experiment today."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollwright.evidence import RunFolder
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.flat import Node, Plain, Tree, flatten
from rollwright.recipes.resolve import Resolved, recipe_from_tree, resolve_text
from rollwright.recipes.withheld import portable_tree

__all__ = ["ChangedDefault", "changed_defaults", "changed_values", "refuse_changed_defaults"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedDefault:
    """A value that nobody wrote, and that this version would choose otherwise."""

    key: str
    stored: Plain
    """None: the version that stored it had no such key."""
    now: Plain
    """None: this version has no such key here."""


def refuse_changed_defaults(run: Path, settings: Sequence[str] = ()) -> None:
    """Stop before a run goes on under a version whose defaults have changed; the run itself keeps its own values.

    Args:
        run: its folder.
        settings: secrets that were withheld from its recipe.

    Raises:
        RecipeError: naming each default that has changed.
        EvidenceError: when there is no run, or one of another schema.
    """
    folder = RunFolder.open(run)
    origins = {value.key: value.origin for value in folder.manifest.configuration}
    resolve_text(folder.recipe_toml, origin=f"run {run.name}", settings=settings)
    changed = changed_defaults(folder.recipe_toml, origins)
    edited = _edited(folder) if changed else {}
    if edited:
        listed = "; ".join(
            f"{key} was {_shown(was)} and is {_shown(now)} there now" for key, (was, now) in edited.items()
        )
        raise RecipeError(
            f"recipe.toml of {run} was changed since its manifest was written: {listed}. Put back what it was; or, to "
            "go on with these values as a segment of its own, give --new-segment with the reason."
        )
    if changed:
        listed = "; ".join(f"{c.key} was {_shown(c.stored)} and is {_shown(c.now)} now" for c in changed)
        raise RecipeError(
            f"defaults have changed since {run} began: {listed}. The run keeps the values that it began with; "
            "--accept-changes goes on."
        )


def changed_values(text: str, resolved: Resolved) -> tuple[str, ...]:
    """The keys of a stored recipe whose values would be stored otherwise now.

    Args:
        text: the stored recipe.
        resolved: the same with settings on top; a secret that it was stored without changes nothing.
    """
    now = dict(flatten(portable_tree(resolved.recipe.model_dump(mode="json", exclude_none=True))))
    stored: Tree = tomllib.loads(text)
    stored.pop("schema_version", None)
    return tuple(key for key, value in flatten(stored) if now.get(key) != value)


def changed_defaults(text: str, origins: Mapping[str, str]) -> tuple[ChangedDefault, ...]:
    """Where what a person wrote would resolve to something else today.

    Args:
        text: a stored recipe, every value written out.
        origins: of each value, as the run's manifest has them.

    Returns:
        By key.

    Raises:
        RecipeError: when what was written is no recipe any more.
    """
    tree: Tree = tomllib.loads(text)
    tree.pop("schema_version", None)
    tree.pop("exporters", None)  # Where metrics are sent is no part of what a run is.
    stored = dict(flatten(tree))
    written = recipe_from_tree(_written(tree, "", origins))
    now = dict(flatten(written.model_dump(mode="json", exclude_none=True, exclude={"exporters"})))
    return tuple(
        ChangedDefault(key=key, stored=stored.get(key), now=now.get(key))
        for key in sorted(stored.keys() | now.keys())
        if stored.get(key) != now.get(key)
    )


def _edited(folder: RunFolder) -> dict[str, tuple[Plain, Plain]]:
    """Keys of the stored recipe that say otherwise than the manifest: what it holds, and what stands there now."""
    stored = dict(flatten(tomllib.loads(folder.recipe_toml)))
    held = {one.key: json.loads(one.value) for one in folder.manifest.configuration if one.value}
    return {key: (held[key], stored[key]) for key in sorted(held.keys() & stored.keys()) if held[key] != stored[key]}


def _written(tree: Tree, prefix: str, origins: Mapping[str, str]) -> Tree:
    """The part of a resolved tree that a person wrote; a list in which nothing was written is left out."""
    kept: Tree = {}
    for name, node in tree.items():
        path = f"{prefix}{name}"
        if isinstance(node, dict):
            inner = _written(node, f"{path}.", origins)
            if inner:
                kept[name] = inner
        elif isinstance(node, list) and node and isinstance(node[0], dict):
            if any(origin != "default" for key, origin in origins.items() if key.startswith(f"{path}.")):
                kept[name] = [_item(item, f"{path}.{place}.", origins) for place, item in enumerate(node)]
        elif origins.get(path, "default") != "default":
            kept[name] = node
    return kept


def _item(item: Node, prefix: str, origins: Mapping[str, str]) -> Node:
    """An item keeps what identifies it, whoever wrote that."""
    if not isinstance(item, dict):
        return item
    return {name: item[name] for name in ("kind", "name") if name in item} | _written(item, prefix, origins)


def _shown(value: Plain) -> str:
    return "absent" if value is None else repr(value)
