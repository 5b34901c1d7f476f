"""Counter-based draws: a token depends on its episode's seed, its context and its position, and on nothing else.

Draw `p` of a context is Philox4x32-10 (Salmon et al., SC 2011) with the seed's halves as key, low first, and the
counter `(p, context, 0, 0)`. The 53 top bits of words 0 (high) and 1 give a uniform number, and the token is the first,
in id order, whose cumulative probability exceeds it.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["invert", "invert_in_place", "philox4x32", "uniforms"]

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_DROPPED_BITS = np.uint64(11)
_UNIT = 2.0**-53


def philox4x32(counter: NDArray[np.uint64], key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Philox4x32-10 for many counters at once.

    Args:
        counter: (4, n) words of 32 bits, held in 64.
        key: (2, n) words of 32 bits, held in 64.

    Returns:
        (4, n) words of 32 bits, held in 64.
    """
    word_0, word_1, word_2, word_3 = counter
    key_0, key_1 = key
    for _ in range(_ROUNDS):
        product_0 = word_0 * _MULTIPLIERS[0]
        product_1 = word_2 * _MULTIPLIERS[1]
        word_0 = (product_1 >> _HALF) ^ word_1 ^ key_0
        word_2 = (product_0 >> _HALF) ^ word_3 ^ key_1
        word_1 = product_1 & _LOW
        word_3 = product_0 & _LOW
        key_0 = (key_0 + _WEYL[0]) & _LOW
        key_1 = (key_1 + _WEYL[1]) & _LOW
    return np.stack([word_0, word_1, word_2, word_3])


def uniforms(
    seeds: NDArray[np.uint64], contexts: NDArray[np.uint64], positions: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """The uniform number of each draw.

    Args:
        seeds: (n,) of the episodes.
        contexts: (n,) numbers of the contexts, below 2**32.
        positions: (n,) positions in the context of the tokens to be drawn, below 2**32.

    Returns:
        (n,) float64 in [0, 1), multiples of 2**-53.
    """
    zeros = np.zeros_like(positions)
    words = philox4x32(np.stack([positions, contexts, zeros, zeros]), np.stack([seeds & _LOW, seeds >> _HALF]))
    return (((words[0] << _HALF) | words[1]) >> _DROPPED_BITS).astype(np.float64) * _UNIT


def invert(probabilities: NDArray[np.float64], draws: NDArray[np.float64]) -> NDArray[np.intp]:
    """The first token, in id order, whose cumulative probability exceeds the draw.

    Args:
        probabilities: (n, V), each row summing to about 1, at least one entry positive.
        draws: (n,) in [0, 1).

    Returns:
        (n,) token ids; past the end of the cumulative sum, the last token of positive probability.
    """
    tokens, beyond = invert_in_place(probabilities.copy(), draws)
    for row in beyond.tolist():
        tokens[row] = np.flatnonzero(probabilities[row])[-1]
    return tokens


def invert_in_place(
    probabilities: NDArray[np.float64], draws: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """As `invert`, without memory of its own.

    Args:
        probabilities: (n, V); afterwards their cumulative sums.
        draws: (n,) in [0, 1).

    Returns:
        (n,) token ids, and the rows whose draw lies past the end of their sum: their token is for the caller to name.
    """
    cumulative = np.cumsum(probabilities, axis=1, out=probabilities)
    tokens = (cumulative > draws[:, None]).argmax(axis=1)
    return tokens, np.flatnonzero(cumulative[:, -1] <= draws)
