"""What the command line gives a world: `key=value`, each a TOML value or a bare word."""

import tomllib
from collections.abc import Mapping, Sequence

from rollwright.recipes.errors import RecipeError

__all__ = ["read_arguments"]


def read_arguments(texts: Sequence[str]) -> Mapping[str, object]:
    """Arguments by name.

    Args:
        texts: each `key=value`; what is no TOML value is text.

    Raises:
        RecipeError: for what is no key and a value, or a key given twice.
    """
    found: dict[str, object] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise RecipeError(f"--arg {text!r} is no argument; write --arg key=value.")
        if key in found:
            raise RecipeError(f"--arg gives {key} twice; give it once.")
        found[key] = _value(value)
    return found


def _value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
