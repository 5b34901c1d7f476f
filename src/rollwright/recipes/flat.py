"""A recipe as dotted keys and values, as origins, manifests and tables name them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

__all__ = ["Plain", "flatten"]

Plain = None | bool | int | float | str | Sequence["Plain"] | Mapping[str, "Plain"]


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
            for index, item in enumerate(cast("list[Mapping[str, Plain]]", value)):
                yield from flatten(item, f"{path}.{index}.")
        else:
            yield path, value
