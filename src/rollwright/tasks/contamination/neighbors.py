"""The nearest text by meaning, from vectors that a model made of both sets."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.tasks.errors import TaskError

__all__ = ["Neighbor", "nearest_neighbors"]

_AT_ONCE = 1024
"""Texts whose products with the whole first set are held at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbor:
    """A text of the second set with its nearest one of the first."""

    second: int
    first: int
    cosine: float
    """Of the angle between both vectors: 1 where they point the same way."""


def nearest_neighbors(first: NDArray[np.float32], second: NDArray[np.float32], *, worst: int) -> tuple[Neighbor, ...]:
    """The pairs that lie nearest, each text of the second set once.

    Args:
        first: (texts, size) vectors of what is trained on.
        second: (texts, size) vectors of what is held out.
        worst: pairs that are kept.

    Returns:
        By falling cosine.
    """
    if first.ndim != 2 or second.ndim != 2 or first.shape[1:] != second.shape[1:]:
        raise TaskError(f"vectors of shapes {first.shape} and {second.shape}; both need one of equal size a text")
    if not len(first):
        return ()
    units = _unit(first)
    found: list[Neighbor] = []
    for begin in range(0, len(second), _AT_ONCE):
        cosines = _unit(second[begin : begin + _AT_ONCE]) @ units.T
        places = cosines.argmax(axis=1)
        found += [
            Neighbor(second=begin + row, first=int(place), cosine=float(cosines[row, place]))
            for row, place in enumerate(places)
        ]
    return tuple(sorted(found, key=lambda one: (-one.cosine, one.second))[:worst])


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)
