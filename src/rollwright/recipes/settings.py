"""What the command line sets: `key=value`, written into the tree of a recipe before it is checked."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from pydantic import BaseModel

from rollwright.recipes.config.shapes import choices_of, is_list, kind_of, sections_of
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.flat import Node, Tree
from rollwright.recipes.keys import fields_at

__all__ = ["Setting", "apply_setting", "expand_kinds", "read_settings"]

_SHORT_DECIMAL = re.compile(r"[+-]?(\d+\.|\.\d+)([eE][+-]?\d+)?")
"""Decimals that TOML refuses and every other notation takes: 1. and .5e-3."""

_DEEPEST = 32
"""Parts of a key; no key of a recipe has half as many."""
_LONGEST = 80
"""Characters of a setting that a sentence repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One `--set`."""

    text: str
    """As given."""
    path: tuple[str, ...]
    value: str

    @property
    def depth(self) -> int:
        """How deep it reaches; `objective.kind` is the same as `objective`."""
        return len(self.path) - (self.path[-1] == "kind")


def read_settings(texts: Sequence[str]) -> tuple[Setting, ...]:
    """Settings in the order to apply them: a whole section before its keys, else as given.

    Args:
        texts: each `dotted.key=value`; a part of a key may be quoted as in TOML.

    Raises:
        RecipeError: for what is not a key and a value.
    """
    return tuple(sorted(map(_read, texts), key=lambda setting: setting.depth))


def apply_setting(config: type[BaseModel], tree: Tree, setting: Setting) -> str:
    """Write a setting into `tree`, in place; a new kind of a section clears what was said for the old one.

    Args:
        config: the class that the tree is for; says what is text and which lists have defaults.
        tree: to be changed.
        setting: one.

    Returns:
        The dotted key, places of lists as numbers.

    Raises:
        RecipeError: when the path leads through a value, or to an item that is not there.
    """
    _refuse_item_without_its_list(config, tree, setting)
    value = _value(config, setting)
    node: Node = tree
    walked: list[str] = []
    for part in setting.path[:-1]:
        node, name = _child(config, node, (*walked, part), setting)
        walked.append(name)
    last = setting.path[-1]
    if isinstance(node, list):
        last = str(_place(node, last, setting))
        node[int(last)] = value
    else:
        assert isinstance(node, dict), "_child gives nothing else"
        if last == "kind" and node.get("kind") != value and _has_kinds(config, walked):
            node.clear()
        node[last] = value
    return ".".join((*walked, last))


def _refuse_item_without_its_list(config: type[BaseModel], tree: Tree, setting: Setting) -> None:
    """An item that is named where its list should be: `warm_start.steps` for `stages.warm_start.steps`."""
    first = setting.path[0]
    if first in config.model_fields or len(setting.path) < 2:
        return
    for name, items in tree.items():
        if isinstance(items, list) and any(isinstance(item, dict) and item.get("name") == first for item in items):
            key = ".".join(setting.path)
            raise RecipeError(f"unknown key {key} (--set); {first} is one of {name}: did you mean {name}.{key}?")


def _has_kinds(config: type[BaseModel], walked: Sequence[str]) -> bool:
    """Whether each kind of a section has keys of its own, and not one class the keys of all."""
    return any(len(sections_of(field.annotation)) > 1 for field in fields_at(config, walked))


def expand_kinds(config: type[BaseModel], tree: Tree) -> None:
    """Write out, in place, sections that are given by their kind alone, at any depth: `objective = "dapo"`."""
    for name, field in config.model_fields.items():
        value = tree.get(name)
        sections = () if is_list(field.annotation) else sections_of(field.annotation)
        if isinstance(value, str) and len(sections) > 1:
            tree[name] = {"kind": value}
        elif isinstance(value, dict):
            for section in sections:
                if len(sections) == 1 or kind_of(section) == value.get("kind"):
                    expand_kinds(section, value)


def _read(text: str) -> Setting:
    key, equals, value = text.partition("=")
    try:
        node: Node = tomllib.loads(f"{key} = 0")
    except (ValueError, RecursionError):
        node = {}
    path: list[str] = []
    while isinstance(node, dict) and len(node) == 1:
        name, node = next(iter(node.items()))
        path.append(name)
    if not equals or not path or node != 0 or len(path) > _DEEPEST:
        raise RecipeError(f"--set takes key=value, such as learner.learning_rate=1e-3; it was given {_cut(text)!r}.")
    return Setting(text=text, path=tuple(path), value=value.strip())


def _value(config: type[BaseModel], setting: Setting) -> Node:
    """The value in the sense of its key: where only text is taken it is text, else TOML, else the bare words."""
    fields = fields_at(config, setting.path)
    choices = [choice for field in fields for choice in choices_of(field.annotation)]
    try:
        found: Tree = tomllib.loads(f"value = {setting.value}")
    except tomllib.TOMLDecodeError:
        found = {}
    except (ValueError, RecursionError) as error:  # TOML, but too many digits or brackets to be read
        raise RecipeError(
            f"--set {_cut(setting.text)}: the value cannot be read: its number is too long or its lists lie too deep."
        ) from error
    if len(found) == 1:
        value = found["value"]
        is_text = bool(choices) and all(c is str or isinstance(next(iter(get_args(c)), None), str) for c in choices)
        return setting.value if is_text and not isinstance(value, str) else value
    if _SHORT_DECIMAL.fullmatch(setting.value) and (float in choices or int in choices):
        return float(setting.value)
    return setting.value


def _child(
    config: type[BaseModel], node: Node, path: tuple[str, ...], setting: Setting
) -> tuple[dict[str, Node] | list[Node], str]:
    name = path[-1]
    if isinstance(node, list):
        place = _place(node, name, setting)
        child, name = node[place], str(place)
    else:
        assert isinstance(node, dict), "the caller came here through sections and lists"
        if name not in node:
            node[name] = _unwritten(config, path)
        child = node[name]
    if not isinstance(child, dict | list):
        raise RecipeError(
            f"--set {_cut(setting.text)}: {'.'.join(path)} is a value, not a section; it has no keys below it."
        )
    return child, name


def _unwritten(config: type[BaseModel], path: tuple[str, ...]) -> dict[str, Node] | list[Node]:
    """What stands for a section that nobody wrote: nothing, or the items of a list by default."""
    fields = fields_at(config, path)
    if not fields or not is_list(fields[0].annotation) or fields[0].is_required():
        return {}
    default: tuple[BaseModel, ...] = fields[0].get_default(call_default_factory=True)
    return [item.model_dump(mode="json", exclude_none=True) for item in default]


def _place(items: list[Node], part: str, setting: Setting) -> int:
    names = [str(item.get("name", item.get("kind", ""))) for item in items if isinstance(item, dict)]
    if part in names:
        return names.index(part)
    if part.isdecimal() and int(part) < len(items):
        return int(part)
    known = ", ".join(name for name in names if name)
    raise RecipeError(
        f"--set {_cut(setting.text)}: there is no item {part!r}; choose {known + ', or ' if known else ''}a place "
        f"from 0 to {len(items) - 1}."
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
