"""For each text of one set its nearest copy in another by shared runs of characters: MinHash, then the exact share.

A text's signature has a least value for each of 48 orders of its shingles; texts whose signatures agree in one of
twelve bands of four are held side by side. Two texts that share 0.8 of their shingles meet so with a chance of 0.998.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.tasks.contamination.shingles import Shingles

__all__ = ["Copies", "Sides", "nearest_copies"]

_BANDS = 12
_ROWS = 4
_ORDERS = _BANDS * _ROWS
_MOST_OF_A_BAND = 8
"""Texts of one bucket that a text is held beside; more are copies of these, or wording."""
_SEED = 20_230_713
_MARGIN = 0.25
"""By how much an estimate from 48 orders may fall short, for the exact share to be worth counting."""


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """The nearest text of the first set for each of the second."""

    places: NDArray[np.int64]
    """(second,) its place in the first; −1 where none came near."""
    shares: NDArray[np.float64]
    """(second,) shingles that both have, of all that either has (Jaccard)."""


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """The two sets that are compared."""

    first: Shingles
    """Of the texts that may hold copies, without wording."""
    second: Shingles
    """Of the texts that are looked for, without wording."""
    whole: tuple[Shingles, Shingles]
    """Of both, with it: texts that differ only in common words are no copies."""


def nearest_copies(sides: Sides, least: float) -> Copies:
    """Find them.

    Args:
        sides: to be compared.
        least: shares below it are of no interest.
    """
    first, second = sides.first, sides.second
    places = np.full(second.num_texts, -1, dtype=np.int64)
    shares = np.zeros(second.num_texts, dtype=np.float64)
    if not len(first.hashes) or not len(second.hashes):
        return Copies(places, shares)
    best, estimate = _best_by_estimate(_signatures(first), _signatures(second), first.sizes > 0, second.sizes > 0)
    texts = np.flatnonzero((best >= 0) & (estimate >= least - _MARGIN))
    places[texts] = best[texts]
    own = _shares((first, second), texts, best)
    shares[texts] = np.minimum(own, _shares(sides.whole, texts, best))
    return Copies(places, shares)


def _shares(pair: tuple[Shingles, Shingles], texts: NDArray[np.int64], best: NDArray[np.int64]) -> NDArray[np.float64]:
    """Jaccard of each of these texts with its best one."""
    starts = [np.concatenate(([0], np.cumsum(side.sizes))) for side in pair]
    found = np.zeros(len(texts), dtype=np.float64)
    for row, text in enumerate(texts):
        one, other = (
            set(side.hashes[begin[place] : begin[place + 1]].tolist())
            for side, begin, place in zip(pair, starts, (best[text], text), strict=True)
        )
        shared = len(one & other)
        found[row] = shared / (len(one) + len(other) - shared)
    return found


def _signatures(shingles: Shingles) -> NDArray[np.uint32]:
    """(texts, orders); of a text without shingles all ones, which is in no bucket."""
    chance = np.random.default_rng(_SEED)
    factors = chance.integers(1, 2**63, size=_ORDERS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    signatures = np.full((shingles.num_texts, _ORDERS), np.iinfo(np.uint32).max, dtype=np.uint32)
    has_some = shingles.sizes > 0
    starts = np.flatnonzero(np.diff(shingles.owners, prepend=-1))
    for order, factor in enumerate(factors):
        values = ((shingles.hashes * factor) >> np.uint64(32)).astype(np.uint32)
        signatures[has_some, order] = np.minimum.reduceat(values, starts)
    return signatures


def _best_by_estimate(
    mine: NDArray[np.uint32], theirs: NDArray[np.uint32], can: NDArray[np.bool_], may: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of each second text the first text in a common bucket whose signature agrees most."""
    places = np.full(len(theirs), -1, dtype=np.int64)
    estimates = np.zeros(len(theirs), dtype=np.float64)
    able = np.flatnonzero(can)
    for band in range(_BANDS):
        rows = slice(band * _ROWS, (band + 1) * _ROWS)
        keys = _keys(mine[able, rows])
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        wanted = _keys(theirs[:, rows])
        begins, ends = np.searchsorted(ordered, wanted, "left"), np.searchsorted(ordered, wanted, "right")
        for step in range(_MOST_OF_A_BAND):
            texts = np.flatnonzero(may & (begins + step < ends))
            if not len(texts):
                break
            found = able[order[begins[texts] + step]]
            agreement = (mine[found] == theirs[texts]).mean(axis=1)
            is_better = agreement > estimates[texts]
            places[texts[is_better]] = found[is_better]
            estimates[texts[is_better]] = agreement[is_better]
    return places, estimates


def _keys(band: NDArray[np.uint32]) -> NDArray[np.uint64]:
    keys = np.zeros(len(band), dtype=np.uint64)
    for column in band.T:
        keys = keys * np.uint64(0x100000001B3) ^ column.astype(np.uint64)
    return keys
