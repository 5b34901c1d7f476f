"""From a preset or a file, and what the command line sets, to one frozen recipe with the origin of each value."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import ValidationError

from rollwright.recipes.config import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.keys import nearest_key

__all__ = ["Resolved", "preset_names", "preset_text", "recipe_toml", "resolve", "resolve_text"]

_PRESETS = resources.files("rollwright.recipes") / "presets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A recipe as it will run."""

    recipe: RecipeConfig
    origins: Mapping[str, str]
    """Dotted key to where its value comes from: `default`, `preset NAME`, `file PATH` or `command line`."""


def preset_names() -> tuple[str, ...]:
    """Names of the presets that ship, sorted."""
    return tuple(sorted(p.name.removesuffix(".toml") for p in _PRESETS.iterdir() if p.name.endswith(".toml")))


def preset_text(name: str) -> str:
    """The TOML of a preset.

    Raises:
        RecipeError: when there is none of that name.
    """
    if name not in preset_names():
        near = difflib.get_close_matches(name, preset_names(), n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise RecipeError(
            f"no recipe {name!r}; there are {', '.join(preset_names())}, or give the path of a .toml file.{hint}"
        )
    return (_PRESETS / f"{name}.toml").read_text(encoding="utf-8")


def resolve(recipe: str, settings: Sequence[str] = ()) -> Resolved:
    """Load a preset by name or a file by path, then apply `key=value` settings.

    Args:
        recipe: a preset's name, or the path of a .toml file.
        settings: each `dotted.key=value`; values are TOML, and bare words are text.

    Raises:
        RecipeError: saying which key is wrong, what was given and what is allowed.
    """
    if recipe.endswith(".toml") or "/" in recipe:
        path = Path(recipe)
        if not path.is_file():
            raise RecipeError(
                f"no file {recipe}; give a .toml file that exists, or one of {', '.join(preset_names())}."
            )
        return resolve_text(path.read_text(encoding="utf-8"), origin=f"file {path.name}", settings=settings)
    return resolve_text(preset_text(recipe), origin=f"preset {recipe}", settings=settings)


def resolve_text(text: str, *, origin: str, settings: Sequence[str] = ()) -> Resolved:
    """Resolve the text of a recipe; see `resolve`."""
    try:
        tree: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{origin} is not TOML: {error}.") from error
    written: dict[str, str] = dict.fromkeys(_leaves(tree), origin)
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise RecipeError(f"--set takes key=value, such as learner.learning_rate=1e-3; it was given {setting!r}.")
        _assign(tree, key.strip(), _value_of(value))
        written = {k: v for k, v in written.items() if k in _leaves(tree)}
        written |= {k: "command line" for k in _leaves(tree) if k == key or k.startswith(f"{key}.")}
    try:
        config = RecipeConfig.model_validate(tree)
    except ValidationError as error:
        raise RecipeError(_sentence(error)) from error
    full = config.model_dump(mode="json", exclude_none=True)
    return Resolved(recipe=config, origins={key: _origin(key, written) for key in _leaves(full)})


def recipe_toml(config: RecipeConfig) -> str:
    """The recipe as resolved, as TOML that resolves to itself."""
    return tomlkit.dumps(config.model_dump(mode="json", exclude_none=True))


def _origin(key: str, written: Mapping[str, str]) -> str:
    short = key.removesuffix(".kind")
    return written.get(key) or written.get(short) or "default"


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> tuple[str, ...]:
    keys: list[str] = []
    for name, value in tree.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            keys += _leaves(value, f"{path}.") or [path]
        elif isinstance(value, list | tuple) and value and all(isinstance(v, Mapping) for v in value):
            for index, item in enumerate(value):
                keys += _leaves(item, f"{path}.{index}.")
        else:
            keys.append(path)
    return tuple(keys)


def _value_of(text: str) -> Any:  # noqa: ANN401 - TOML values are of several types
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _assign(tree: dict[str, Any], key: str, value: Any) -> None:  # noqa: ANN401
    *path, last = key.split(".")
    node: Any = tree
    for place, part in enumerate(path):
        here = ".".join(path[: place + 1])
        if isinstance(node, list):
            node = node[_index(node, part, here)]
        else:
            if isinstance(node.get(part), str):
                node[part] = {"kind": node[part]}
            node = node.setdefault(part, {})
        if not isinstance(node, dict | list):
            raise RecipeError(f"--set {key}: {here} is a value, not a section; it has no keys below it.")
    if isinstance(node, list):
        node[_index(node, last, key)] = value
    elif last == "kind" and node.get("kind") != value:
        # Another kind has other keys: what the preset said for the old one does not carry over.
        node.clear()
        node["kind"] = value
    else:
        node[last] = value


def _index(items: list[Any], part: str, key: str) -> int:
    names = [item.get("name", item.get("kind")) for item in items if isinstance(item, dict)]
    if part in names:
        return names.index(part)
    if part.isdigit() and int(part) < len(items):
        return int(part)
    raise RecipeError(
        f"--set {key}: no item {part!r}; there are {', '.join(map(str, names))}, or 0 to {len(items) - 1}."
    )


def _sentence(error: ValidationError) -> str:
    sentences: list[str] = []
    for problem in error.errors():
        tags = {"grpo", "dr_grpo", "dapo", "rloo", "reinforce", "fresh", "local", "packaged", "arithmetic", "jsonl"}
        tags |= {"reasoning_gym", "tool", "custom", "exact", "numeric", "math", "format", "supervised", "rl"}
        path = [str(p) for i, p in enumerate(problem["loc"]) if not (i and p in tags)]
        key = ".".join(path)
        message = problem["msg"].removeprefix("Value error, ")
        match problem["type"]:
            case "extra_forbidden":
                near = nearest_key(RecipeConfig, key)
                hint = f"did you mean {near}?" if near else "`rollwright recipe show NAME` prints all keys."
                sentences.append(f"unknown key {key}; {hint}")
            case "missing":
                sentences.append(f"{key} is missing; it has no default.")
            case _:
                given = "" if isinstance(problem["input"], dict | RecipeConfig) else f", not {problem['input']!r}"
                sentences.append(f"{key + ': ' if key else ''}{message}{given}.")
    return " ".join(s[0].upper() + s[1:] if i else s for i, s in enumerate(sentences))
