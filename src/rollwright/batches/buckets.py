"""The parts into which tokens and episodes are sorted where each has a number: lengths, ages, success rates."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["LAG_NAMES", "LENGTH_NAMES", "RATE_NAMES", "lag_places", "length_places", "rate_places"]

_LENGTHS: Final = (128, 512, 2048, 8192)
"""Largest number of tokens in each bucket but the last."""
_LAGS: Final = (0, 1, 2, 4, 8)
"""Largest lag of each bucket but the last, steps."""
_RATES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)


def _buckets(ends: tuple[int, ...], *, first: int) -> tuple[str, ...]:
    """Names such as 1-128, 129-512, …, over 8192."""
    starts = (first, *(end + 1 for end in ends[:-1]))
    names = (str(end) if start == end else f"{start}-{end}" for start, end in zip(starts, ends, strict=True))
    return (*names, f"over {ends[-1]}")


LENGTH_NAMES: Final = _buckets(_LENGTHS, first=1)
LAG_NAMES: Final = (*_buckets(_LAGS, first=0), "unsampled")
RATE_NAMES: Final = (
    "0",
    *(f"({low:g},{high:g}]" for low, high in zip(_RATES[:-2], _RATES[1:-1], strict=True)),
    f"({_RATES[-2]:g},1)",
    "1",
    "unscored",
)
"""Success rates of a prompt: never, up to a quarter, …, always; and where no attempt has a reward."""


def length_places(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Place in `LENGTH_NAMES` of each number of tokens; 0 tokens stand in the first bucket."""
    return np.searchsorted(_LENGTHS, lengths).astype(np.int64)


def lag_places(lags: NDArray[np.integer]) -> NDArray[np.int64]:
    """Place in `LAG_NAMES` of each lag in steps; below 0 where nothing was sampled."""
    return np.where(lags < 0, len(_LAGS) + 1, np.searchsorted(_LAGS, lags)).astype(np.int64)


def rate_places(rates: NDArray[np.floating]) -> NDArray[np.int64]:
    """Place in `RATE_NAMES` of each share of successes; NaN where there is none."""
    found = np.searchsorted(_RATES[:-1], rates)
    found = np.where(rates == 1.0, len(RATE_NAMES) - 2, found)
    return np.where(np.isnan(rates), len(RATE_NAMES) - 1, found).astype(np.int64)
