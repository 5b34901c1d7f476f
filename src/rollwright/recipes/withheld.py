"""What of a recipe is stored with a run: no secret, no home folder, no absolute path.

A secret is stored as `<withheld>` and has to be given again where the stored recipe is used. A path below the current
folder or the home folder is stored with that folder's name for it, and read back as the path that it is there.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from rollwright.recipes.flat import Node, Plain, Tree

__all__ = ["WITHHELD", "portable_text", "portable_tree", "restored_text", "restored_tree", "without_secrets"]

WITHHELD = "<withheld>"

_HERE, _HOME = "{here}", "{home}"
_ABSOLUTE = re.compile(r"(?P<scheme>(file:(//)?)?)(?P<path>/(?!/).*|/)", re.S)
_SECRET_NAME = re.compile(
    r"(^|_)(password|passwd|secret|(api|access|private)_?key|(auth|access)_?token|bearer|credentials?)$", re.I
)
_SECRET_TEXT = re.compile(
    r"\b(sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|\bhf_[A-Za-z0-9]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}"
    r"|\bxox[abp]-[\w-]{10,}|\bAKIA[A-Z0-9]{16}\b|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+|-----BEGIN [A-Z ]*PRIVATE KEY"
)
"""Forms in which well-known services write their keys."""
_IN_ADDRESS = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)(?P<user>[^/\s@?#]+@)?|(?P<query>[?&](?:[\w-]*(?:key|token|secret|password|sig|signature)))=[^&\s#]+",
    re.I,
)


def without_secrets(text: str) -> str:
    """A text with user, password and keys of addresses, and keys of well-known services, withheld."""

    def clean(found: re.Match[str]) -> str:
        if found["query"]:
            return f"{found['query']}={WITHHELD}"
        return f"{found['scheme']}{WITHHELD}@" if found["user"] else found["scheme"]

    return _SECRET_TEXT.sub(WITHHELD, _IN_ADDRESS.sub(clean, text))


def portable_tree(tree: Mapping[str, Plain]) -> dict[str, Plain]:
    """The tree of a recipe as it is stored."""
    return {key: _portable(key, value) for key, value in tree.items()}


def restored_tree(tree: Tree) -> Tree:
    """The tree that a stored one stands for, on this machine and in this folder."""
    return {key: _restored(value) for key, value in tree.items()}


def portable_text(text: str) -> str:
    """A value without the names of this machine's folders."""
    here, home = str(Path.cwd()), str(Path.home())
    for folder, name in ((here, _HERE), (home, _HOME)):
        if folder != "/":
            text = re.sub(rf"(?<![\w.-]){re.escape(folder)}(?=/|$|[\s\"':,;)])", name, text)
    absolute = _ABSOLUTE.fullmatch(text)
    if absolute is not None:
        return f"{absolute['scheme']}{_HERE}/{os.path.relpath(absolute['path'], here)}"
    return text


def restored_text(text: str) -> str:
    """The value that `portable_text` was given, where the folders are those of then."""
    scheme, found, path = text.partition(f"{_HERE}/..")
    if found and (not scheme or scheme.startswith("file:")):
        return f"{scheme}{os.path.normpath(f'{Path.cwd()}/..{path}')}"
    return text.replace(_HERE, str(Path.cwd())).replace(_HOME, str(Path.home()))


def _portable(key: str, value: Plain) -> Plain:
    match value:
        case str():
            if value and _SECRET_NAME.search(key):
                return WITHHELD
            # Whole: half an address is no address.
            return portable_text(value) if without_secrets(value) == value else WITHHELD
        case Mapping():
            return portable_tree(value)
        case list() | tuple():
            return [_portable(key, one) for one in value]
        case _:
            return value


def _restored(value: Node) -> Node:
    match value:
        case str():
            return restored_text(value)
        case dict():
            return restored_tree(value)
        case list():
            return [_restored(one) for one in value]
        case _:
            return value
