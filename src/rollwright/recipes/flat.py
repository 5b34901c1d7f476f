"""A recipe as dotted keys and values, as origins, manifests and tables name them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time

__all__ = ["Node", "Plain", "Tree", "flatten"]

Plain = None | bool | int | float | str | date | time | Sequence["Plain"] | Mapping[str, "Plain"]
"""A value as TOML and JSON write it."""

Node = bool | int | float | str | date | time | list["Node"] | dict[str, "Node"]
"""A value of a TOML text."""

Tree = dict[str, Node]
"""What a TOML text holds, to be changed in place."""


def flatten(tree: Mapping[str, Plain], prefix: str = "") -> Iterator[tuple[str, Plain]]:
    """Dotted key and value of every leaf; a list of tables counts its places from 0, an empty table is a leaf.

    Args:
        tree: what `model_dump(mode="json")` gives.
        prefix: put before every key.
    """
    for name, value in tree.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{path}.")
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for index, item in enumerate(value):
                if isinstance(item, Mapping):
                    yield from flatten(item, f"{path}.{index}.")
        else:
            yield path, value
