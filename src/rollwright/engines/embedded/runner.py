"""What the decode loop asks of a model: caches at numbered places, and logits."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Install", "Logits", "PrefillRow", "Runner"]

Logits = NDArray[np.float32]
Install = Callable[[], None]
"""Makes staged weights serve."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrefillRow:
    """Tokens to be written behind what a place holds."""

    place: int
    start: int
    """Position of the first of them."""
    token_ids: NDArray[np.int32]


class Runner(Protocol):
    """A model with one cache a place. Not thread-safe: the decode thread alone calls it."""

    @property
    def vocab(self) -> int:
        """Number of token ids."""
        ...

    @property
    def num_places(self) -> int:
        """Caches that hold a context each."""
        ...

    @property
    def max_context_tokens(self) -> int:
        """Tokens a place can hold."""
        ...

    @property
    def can_copy_prefix(self) -> bool:
        """Whether `copy_prefix` and a start below what a place holds are possible."""
        ...

    def prefill(self, rows: Sequence[PrefillRow]) -> Logits:
        """Write tokens; (n, V) logits behind the last token of each row."""
        ...

    def decode(self, places: NDArray[np.intp], token_ids: NDArray[np.int64], positions: NDArray[np.int64]) -> Logits:
        """Write one token behind what each of these places holds; (n, V) logits behind them."""
        ...

    def score(self, token_ids: NDArray[np.int32], score_from: int) -> Iterator[Logits]:
        """Logits that tokens `score_from`… were drawn from, in pieces, beside all places."""
        ...

    def copy_prefix(self, source: int, target: int, num_tokens: int) -> None:
        """Let one place begin with the first positions of another; what either writes next is its own."""
        ...

    def scrub(self, place: int) -> None:
        """Forget all numbers of a place, so that none that is not finite outlives its row."""
        ...

    def stage(self, tensors: Mapping[str, Tensor]) -> Install:
        """Lay out new weights beside those that serve; what the places hold stays of the old ones."""
        ...
