"""The array types that records hold: read-only NumPy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

__all__ = ["Ids", "Logprobs", "Tensors", "frozen_array", "ids", "logprobs"]

Ids = NDArray[np.int32]
Logprobs = NDArray[np.float32]
Tensors = Mapping[str, NDArray[np.generic]]


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
