"""The array types that records hold: read-only NumPy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

__all__ = ["Ids", "Lists", "Logprobs", "Tensors", "frozen_array", "ids", "lists_of", "logprobs"]

Ids = NDArray[np.int32]
Logprobs = NDArray[np.float32]
Tensors = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lists:
    """Lists of numbers of n rows, one behind the other: as many rows cost no object each."""

    lengths: NDArray[np.integer]
    """(n,) 0 where a row has none."""
    values: NDArray[np.generic]
    """(sum of lengths,)"""
    is_given: NDArray[np.bool_] | None = None
    """(n,) where a row has a list; None: in all."""

    def __len__(self) -> int:
        """How many rows."""
        return len(self.lengths)


def lists_of(values: NDArray[Any], spans: NDArray[np.int64], is_given: NDArray[np.bool_] | None = None) -> Lists:
    """A list a row, cut from one stream.

    Args:
        values: (T,) numbers.
        spans: (n, 2) start and stop of each row's, in any order.
        is_given: (n,) the rows that have one; None: all.
    """
    lengths = spans[:, 1] - spans[:, 0]
    if is_given is not None:
        lengths = np.where(is_given, lengths, 0)
    ends = np.cumsum(lengths)
    place = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(spans[:, 0] - (ends - lengths), lengths)
    return Lists(lengths=lengths, values=values[place], is_given=is_given)


def frozen_array(values: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
    """A read-only array of `dtype`; copies unless `values` is already one.

    Args:
        values: numbers of any shape.
        dtype: the NumPy type to store.

    Returns:
        The same shape, not writeable.
    """
    array = np.asarray(values, dtype=dtype)
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def ids(values: ArrayLike) -> Ids:
    """Token ids as a read-only (n,) int32 array."""
    return frozen_array(values, np.int32)


def logprobs(values: ArrayLike) -> Logprobs:
    """Log-probabilities in nats as a read-only (n,) float32 array."""
    return frozen_array(values, np.float32)
