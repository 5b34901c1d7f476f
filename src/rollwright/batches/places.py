"""Where the tokens of chosen rows stand in a step's stream."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["token_places"]


def token_places(row_offsets: NDArray[np.int64], rows: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The tokens of some rows, laid end to end.

    Args:
        row_offsets: (R + 1,) of the step's stream.
        rows: row numbers, in the order wanted.

    Returns:
        (len(rows) + 1,) offsets of these rows, and (t,) place of each of their tokens in the step's stream.
    """
    chosen = np.asarray(rows, np.int64)
    starts = row_offsets[chosen]
    lengths = row_offsets[chosen + 1] - starts
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return offsets, np.arange(int(offsets[-1]), dtype=np.int64) + np.repeat(starts - offsets[:-1], lengths)
