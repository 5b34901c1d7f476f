"""In which line of a TOML text each key is written, so that an error can point at it."""

import tomllib
from collections.abc import Iterator

from rollwright.recipes.flat import Node, Tree, flatten

__all__ = ["line_of", "lines_of"]


def lines_of(text: str) -> dict[str, int]:
    """Dotted key of every section, list and value to the line, from 1, where it begins.

    Args:
        text: valid TOML.
    """
    lines: dict[str, int] = {}
    section = ""
    counts: dict[str, int] = {}
    for number, tree, is_header in _statements(text):
        if is_header:
            section = _section(tree, counts)
            lines.setdefault(section.removesuffix("."), number)
            continue
        for key, _ in flatten(tree):
            parts = f"{section}{key}".split(".")
            for length in range(len(section.split(".")), len(parts) + 1):
                lines.setdefault(".".join(parts[:length]), number)
    return lines


def line_of(key: str, lines: dict[str, int]) -> int | None:
    """The line of a key, or of the nearest section around it that is written."""
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in lines:
            return lines[".".join(parts[:length])]
    return None


def _statements(text: str) -> Iterator[tuple[int, Tree, bool]]:
    """Each statement with its first line: the shortest runs of lines that are TOML of their own."""
    waiting: list[str] = []
    first = 1
    for number, line in enumerate(text.splitlines(), 1):
        if not waiting:
            first = number
        waiting.append(line)
        try:
            tree: Tree = tomllib.loads("\n".join(waiting))
        except tomllib.TOMLDecodeError:
            continue
        if tree:
            yield first, tree, waiting[0].lstrip().startswith("[")
        waiting = []


def _section(tree: Tree, counts: dict[str, int]) -> str:
    """The prefix of the keys behind a header; `counts` has the places of lists that were opened."""
    prefix = ""
    node: Node = tree
    while isinstance(node, dict) and node:
        name, node = next(iter(node.items()))
        prefix += f"{name}."
        if isinstance(node, list):
            counts[prefix] = counts.get(prefix, -1) + 1
            node = node[0]
        if prefix in counts:
            prefix += f"{counts[prefix]}."
    return prefix
