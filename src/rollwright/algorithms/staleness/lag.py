"""How old tokens are: steps between the weights that sampled them and those that stand now (M107, M109).

Age is about weights. How far engine and learner differ at equal weights is another axis.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["RowLag", "lag_of", "row_lag", "token_lags", "tokens_within", "rows_within"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLag:
    """Ages within one row; all 0 where nothing was sampled."""

    oldest: int
    """Decides admission and what is withheld."""
    mean: float
    newest: int
    num_versions: int


def lag_of(version: int, *, learner_version: int) -> int:
    """learner_version − version, in steps; weights from the future are refused."""
    if version > learner_version:
        raise ObjectiveError(
            f"tokens are of policy version {version}; the newest weights that stand are version {learner_version}."
        )
    return learner_version - version


def token_lags(versions: ArrayLike, *, learner_version: int) -> NDArray[np.int64]:
    """(T,) int64 ages of (T,) versions that sampled the tokens; −1 where nothing was sampled."""
    given = np.asarray(versions, np.int64)
    if given.size:
        lag_of(int(given.max()), learner_version=learner_version)
    return np.where(given < 0, -1, learner_version - given)


def row_lag(versions: ArrayLike, *, learner_version: int) -> RowLag:
    """Oldest, mean and newest age over the sampled tokens of a row, and how many versions wrote it.

    Args:
        versions: (T,) int, weights that sampled each token, or each segment where only the bounds matter; below 0
            where nothing was sampled.
        learner_version: weights that stand at the update.
    """
    lags = token_lags(versions, learner_version=learner_version)
    known = lags[lags >= 0]
    if not known.size:
        return RowLag(oldest=0, mean=0.0, newest=0, num_versions=0)
    return RowLag(
        oldest=int(known.max()),
        mean=float(known.mean()),
        newest=int(known.min()),
        num_versions=len(np.unique(known)),
    )


def rows_within(oldest: ArrayLike, *, max_lag: float) -> NDArray[np.bool_]:
    """(R,) bool: rows whose oldest (or mean) age is at most `max_lag`; the bound is inside."""
    return np.asarray(oldest, np.float64) <= max_lag


def tokens_within(versions: ArrayLike, *, learner_version: int, max_lag: int) -> NDArray[np.bool_]:
    """(T,) bool: sampled tokens whose own age is at most `max_lag`.

    The row stays one of mixed versions: what is left of it is not on-policy for being young.
    """
    lags = token_lags(versions, learner_version=learner_version)
    return (lags >= 0) & (lags <= max_lag)
