"""From a preset or a file, and what the command line sets, to one frozen recipe with the origin of each value."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import tomlkit
from pydantic import ValidationError

from rollwright.recipes.config import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.flat import Plain, Tree, flatten
from rollwright.recipes.keys import closest, dotted_keys, nearest_key
from rollwright.recipes.lines import line_of, lines_of
from rollwright.recipes.protocols import expand_protocols
from rollwright.recipes.sentences import problems_of
from rollwright.recipes.settings import apply_setting, expand_kinds, read_settings
from rollwright.recipes.unread import unread_keys
from rollwright.recipes.withheld import WITHHELD, portable_tree, restored_tree

__all__ = [
    "SCHEMA_VERSION",
    "Resolved",
    "preset_names",
    "preset_text",
    "recipe_from_tree",
    "recipe_toml",
    "resolve",
    "resolve_text",
]

SCHEMA_VERSION = 1
"""Of the keys of a recipe and what they mean; a stored recipe of another one is refused."""

_PRESETS = resources.files("rollwright.recipes") / "presets"
_FOR_WORLDS = "tiny-agent"
"""The preset that a world alone is trained by."""
_WORLD = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_VERSION_KEY = "schema_version"
_COMMAND_LINE = "command line"
_DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A recipe as it will run."""

    recipe: RecipeConfig
    origins: Mapping[str, str]
    """Dotted key to where its value comes from: `default`, `preset NAME`, `file PATH` or `command line`."""

    def values(self) -> dict[str, Plain]:
        """Every dotted key with its value, in the order of the sections."""
        return dict(flatten(_dump(self.recipe)))

    def with_recipe(self, recipe: RecipeConfig, *, origin: str) -> "Resolved":
        """The same with another recipe; the values that it changes come from `origin`."""
        before = self.values()
        origins = {
            key: self.origins[key] if key in before and before[key] == value else origin
            for key, value in flatten(_dump(recipe))
        }
        return Resolved(recipe=recipe, origins=origins)

    def label_of(self, key: str) -> str | None:
        """Evidence label of a value that the recipe wrote; None for a default and for what the command line set."""
        if self.origins.get(key, _DEFAULT) in (_DEFAULT, _COMMAND_LINE):
            return None
        labels = self.recipe.run.labels
        around = [k for k in labels if _covers(k, key)]
        return labels[max(around, key=len)].partition(":")[0] if around else self.recipe.run.evidence_label


def preset_names() -> tuple[str, ...]:
    """Names of the presets that ship, sorted."""
    return tuple(sorted(p.name.removesuffix(".toml") for p in _PRESETS.iterdir() if p.name.endswith(".toml")))


def preset_text(name: str) -> str:
    """The TOML of a preset.

    Raises:
        RecipeError: when there is none of that name.
    """
    if name not in preset_names():
        near = closest(name, preset_names(), 0.4)
        hint = f" Did you mean {near}?" if near else ""
        raise RecipeError(
            f"no recipe {name!r}; there are {', '.join(preset_names())}, or give the path of a .toml file.{hint}"
        )
    return (_PRESETS / f"{name}.toml").read_text(encoding="utf-8")


def resolve(recipe: str, settings: Sequence[str] = ()) -> Resolved:
    """Load a preset by name or a file by path, then apply `key=value` settings.

    Args:
        recipe: a preset's name, the path of a .toml file, or `package.module:callable` of a world: the preset
            `tiny-agent` with that world.
        settings: each `dotted.key=value`; values are TOML, and bare words are text.

    Raises:
        RecipeError: saying which keys are wrong, what was given and what is allowed.
    """
    if _WORLD.fullmatch(recipe):
        name = recipe.rpartition(":")[0].rpartition(".")[2]
        chosen = [f'environment.name="{recipe}"', f'run.name="{name}"', *settings]
        return resolve_text(preset_text(_FOR_WORLDS), origin=f"preset {_FOR_WORLDS}", settings=chosen)
    if not recipe.endswith(".toml") and "/" not in recipe:
        return resolve_text(preset_text(recipe), origin=f"preset {recipe}", settings=settings)
    path = Path(recipe)
    if not path.is_file():
        raise RecipeError(f"no file {recipe}; give a .toml file that exists, or one of {', '.join(preset_names())}.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{recipe} is not text in UTF-8: {error.reason} at byte {error.start}.") from error
    return resolve_text(text, origin=f"file {path.name}", settings=settings)


def resolve_text(text: str, *, origin: str, settings: Sequence[str] = ()) -> Resolved:
    """Resolve the text of a recipe; see `resolve`.

    Args:
        text: TOML.
        origin: what to call it: `preset NAME`, `file NAME`, `run NAME`.
        settings: of the command line.
    """
    try:
        return _resolved(text, origin, settings)
    except RecursionError as error:
        raise RecipeError(f"{origin}: its sections or lists lie too deep to be read; no recipe nests so.") from error


def recipe_toml(config: RecipeConfig) -> str:
    """The recipe as resolved, every value written out, as TOML that resolves to itself; secrets are withheld."""
    return tomlkit.dumps({_VERSION_KEY: SCHEMA_VERSION, **portable_tree(_dump(config))})


def recipe_from_tree(tree: Mapping[str, Plain], where: Callable[[str], str] = lambda key: "") -> RecipeConfig:
    """The recipe that a tree of sections is.

    Args:
        tree: sections by name.
        where: gives for a dotted key where it is written, or nothing.

    Raises:
        RecipeError: with a sentence for each key that is wrong.
    """
    try:
        return RecipeConfig.model_validate(tree)
    except ValidationError as error:
        raise RecipeError.of(problems_of(error, RecipeConfig, where)) from error


def _resolved(text: str, origin: str, settings: Sequence[str]) -> Resolved:
    draft = _Draft(text, origin)
    for setting in read_settings(settings):
        draft.set(apply_setting(RecipeConfig, draft.tree, setting))
    draft.expand_protocols()
    if draft.is_stored:
        _refuse_withheld(draft.tree, origin)
    recipe = draft.validated()
    # A stored recipe writes out every value, read or not.
    unread = () if draft.is_stored else tuple(unread_keys(recipe, dict(flatten(draft.tree))))
    refused = [u for u in unread if draft.is_from_command_line(u.key) or not draft.is_set(u.decided_by)]
    if refused:
        raise RecipeError.of([f"nothing reads {u.key} unless {u.because}{draft.at(u.key)}." for u in refused])
    for key in (u.key for u in unread):
        # The command line switched off what would have read it: back to its default, so that nothing is ignored.
        draft.drop(key)
    recipe = draft.validated() if unread else recipe
    _check_labels(recipe)
    full = dict(flatten(_dump(recipe)))
    return Resolved(recipe=recipe, origins={key: draft.origins.get(key, _DEFAULT) for key in full})


class _Draft:
    """A recipe on its way: its tree, and who wrote which key."""

    def __init__(self, text: str, origin: str) -> None:
        self._origin = origin
        try:
            self.tree: Tree = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise RecipeError(f"{origin} is not TOML: {error}.") from error
        except ValueError as error:
            raise RecipeError(f"{origin} holds a number that is too long to be read: {error}.") from error
        self._lines = lines_of(text)
        self.is_stored = _VERSION_KEY in self.tree
        _check_version(self.tree.pop(_VERSION_KEY, SCHEMA_VERSION), origin)
        if self.is_stored:
            self.tree = restored_tree(self.tree)
        expand_kinds(RecipeConfig, self.tree)
        self.origins = {key: origin for key, _ in flatten(self.tree)}
        self._set: list[str] = []

    def set(self, key: str) -> None:
        """Note that the command line wrote `key` into the tree."""
        expand_kinds(RecipeConfig, self.tree)
        self._set.append(key)
        leaves = [leaf for leaf, _ in flatten(self.tree)]
        kept = {leaf: self.origins[leaf] for leaf in leaves if leaf in self.origins}
        self.origins = kept | {leaf: _COMMAND_LINE for leaf in leaves if _covers(key, leaf)}

    def is_set(self, key: str) -> bool:
        """True where the command line had a hand in `key`."""
        return any(_covers(key, done) or _covers(done, key) for done in self._set)

    def expand_protocols(self) -> None:
        """Write out the protocols that are named; a stored recipe has their values already."""
        if not self.is_stored or self.is_set("evaluation.protocol"):
            written = expand_protocols(self.tree, self.origins, self.is_set)
            leaves = [leaf for leaf, _ in flatten(self.tree)]
            kept = {leaf: self.origins[leaf] for leaf in leaves if leaf in self.origins}
            self.origins = kept | {leaf: o for key, o in written.items() for leaf in leaves if _covers(key, leaf)}

    def drop(self, key: str) -> None:
        """Take back a value of the text, or a whole list of tables."""
        section, _, name = key.rpartition(".")
        node = self.tree[section] if section else self.tree
        assert isinstance(node, dict), "keys that may go unread lie in sections"
        del node[name]
        self.origins = {leaf: origin for leaf, origin in self.origins.items() if not _covers(key, leaf)}

    def is_from_command_line(self, key: str) -> bool:
        """True where the command line wrote `key`, or something in it."""
        return any(origin == _COMMAND_LINE for leaf, origin in self.origins.items() if _covers(key, leaf))

    def at(self, key: str) -> str:
        """Where `key` is written, in parentheses."""
        return f" ({self.where(key)})" if self.where(key) else ""

    def where(self, key: str) -> str:
        """Where `key` is written; empty for what nobody wrote."""
        if any(_covers(done, key) for done in self._set):
            return "--set"
        line = line_of(key, self._lines)
        return "" if line is None else f"line {line} of {self._origin}"

    def validated(self) -> RecipeConfig:
        """The recipe.

        Raises:
            RecipeError: with a sentence for each key that is wrong.
        """
        return recipe_from_tree(self.tree, self.where)


def _refuse_withheld(tree: Tree, origin: str) -> None:
    withheld = [key for key, value in flatten(tree) if value == WITHHELD or _holds_withheld(value)]
    if withheld:
        raise RecipeError(
            f"{origin} was stored without {', '.join(withheld)}, which held a secret; give it again, as in `rollwright "
            f"resume RUN --set {withheld[0]}=…`. What a judge's `key_file` holds is asked for at no time."
        )


def _holds_withheld(value: Plain) -> bool:
    return isinstance(value, list | tuple) and WITHHELD in value


def _check_version(version: object, origin: str) -> None:
    if version != SCHEMA_VERSION:
        raise RecipeError(
            f"{origin} is written in schema_version {version!r} of recipes; this rollwright reads {SCHEMA_VERSION}. "
            "Use the version that wrote it (the run's manifest.json names its commit), or write the recipe anew from "
            "`rollwright recipe show`."
        )


def _check_labels(recipe: RecipeConfig) -> None:
    keys = dotted_keys(RecipeConfig)
    for key, label in recipe.run.labels.items():
        places = ".".join("*" if part.isdigit() else part for part in key.split("."))
        if not any(_covers(places, known) for known in keys):
            near = nearest_key(RecipeConfig, key)
            raise RecipeError(f"run.labels names {key}, which is no key{f'; did you mean {near}?' if near else '.'}")
        if label.partition(":")[0] not in ("D", "C", "I", "U"):
            raise RecipeError(
                f"run.labels gives {key} the label {label!r}; it begins with D (disclosed), C (confirmed), "
                "I (inferred) or U (unknown), and behind a colon stands the source."
            )


def _dump(config: RecipeConfig) -> dict[str, Plain]:
    return config.model_dump(mode="json", exclude_none=True)


def _covers(section: str, key: str) -> bool:
    return key == section or key.startswith(f"{section}.")
