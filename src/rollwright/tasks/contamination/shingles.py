"""Runs of words or characters of many texts as numbers, all at once: what equal texts share has equal numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Shingles", "character_shingles", "common_in", "frequent", "without", "word_shingles"]

_Hashes = NDArray[np.uint64]
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTOR = np.uint64(0x100000001B3)


@dataclass(frozen=True, slots=True, eq=False)
class Shingles:
    """Shingles of texts, text after text."""

    hashes: _Hashes
    """(n,) one a shingle; 64 bits, so that two different ones are hardly ever equal."""
    owners: NDArray[np.int64]
    """(n,) the text that each is of, rising."""
    num_texts: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(texts,) how many each text has."""
        return np.bincount(self.owners, minlength=self.num_texts).astype(np.int64)


def word_shingles(texts: Sequence[Sequence[str]], length: int, known: dict[str, int]) -> Shingles:
    """Every run of so many words; a text with fewer words has none.

    Args:
        texts: of each its words.
        length: of a run.
        known: numbers of words so far; grows. Sets that are compared share it.
    """
    long = [words if len(words) >= length else () for words in texts]
    sizes = np.array([len(words) for words in long], dtype=np.int64)
    number = known.setdefault
    numbers = np.array([number(word, len(known)) for words in long for word in words], dtype=np.uint64)
    return _windows(_mixed(numbers + _STEP), sizes, length)


def character_shingles(texts: Sequence[str], length: int) -> Shingles:
    """Every run of so many characters; a shorter text has none.

    Args:
        texts: as they are compared.
        length: of a run.
    """
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    points = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    return _windows(_mixed(points), sizes, length)


def common_in(shingles: Shingles, others: Shingles) -> NDArray[np.bool_]:
    """(n,) whether each shingle stands anywhere in the others."""
    return _in(shingles.hashes, others.hashes)


def frequent(shingles: Shingles, share: float, least: int) -> _Hashes:
    """Shingles that stand in so large a share of the texts that they are the wording of the set, not of a task.

    Args:
        shingles: of a set of texts.
        share: of the texts, above which one is wording.
        least: texts that it stands in at least, so that in a small set nothing is.

    Returns:
        Their hashes, rising.
    """
    most = max(least, share * shingles.num_texts)
    # Few buckets are fuller than that, and only what lies in these is sorted: the rest is counted in one pass.
    buckets = _buckets(shingles.hashes, len(shingles.hashes))
    may_be = np.bincount(buckets, minlength=1)[buckets] > most
    hashes, owners = shingles.hashes[may_be], shingles.owners[may_be]
    order = np.lexsort((owners, hashes))
    hashes, owners = hashes[order], owners[order]
    is_new = np.ones(len(hashes), dtype=np.bool_)
    is_new[1:] = (hashes[1:] != hashes[:-1]) | (owners[1:] != owners[:-1])
    found, counts = np.unique(hashes[is_new], return_counts=True)
    return found[counts > most]


def without(shingles: Shingles, hashes: _Hashes) -> Shingles:
    """The shingles that are none of these."""
    if not len(hashes):
        return shingles
    kept = ~_in(shingles.hashes, hashes)
    return Shingles(shingles.hashes[kept], shingles.owners[kept], shingles.num_texts)


def _in(hashes: _Hashes, others: _Hashes) -> NDArray[np.bool_]:
    """Membership in one pass over both: by bucket first, then exactly for what shares one."""
    size = len(others)
    if not size or not len(hashes):
        return np.zeros(len(hashes), dtype=np.bool_)
    places, taken = _buckets(hashes, size), _buckets(others, size)
    is_taken, is_wanted = (np.zeros(_num_buckets(size), dtype=np.bool_) for _ in range(2))
    is_taken[taken], is_wanted[places] = True, True
    found = is_taken[places]
    near = np.sort(others[is_wanted[taken]])
    if len(near):
        meant = hashes[found]
        found[found] = near[np.minimum(np.searchsorted(near, meant), len(near) - 1)] == meant
    return found


def _num_buckets(size: int) -> int:
    return 1 << max(4, (8 * size).bit_length())


def _buckets(hashes: _Hashes, size: int) -> NDArray[np.int64]:
    return (hashes >> np.uint64(64 - (_num_buckets(size).bit_length() - 1))).astype(np.int64)


def _windows(numbers: _Hashes, sizes: NDArray[np.int64], length: int) -> Shingles:
    owners = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    count = max(0, len(numbers) - length + 1)
    hashes = np.zeros(count, dtype=np.uint64)
    for place in range(length):
        hashes *= _FACTOR
        hashes ^= numbers[place : place + count]
        hashes += _STEP
    # A window that begins in one text and ends in the next is of neither.
    is_whole = owners[:count] == owners[length - 1 : length - 1 + count]
    return Shingles(_mixed(hashes[is_whole]), owners[:count][is_whole], len(sizes))


def _mixed(values: _Hashes) -> _Hashes:
    """Spread over all 64 bits (the finalizer of splitmix64)."""
    mixed = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
