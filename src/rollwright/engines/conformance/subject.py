"""What is checked, against what, and what is found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rollwright.record import Engine, Ids, WeightsManifest, ids

__all__ = ["Fault", "Finding", "Inapplicable", "OpenFn", "PublishFn", "ReferenceFn", "Subject", "varied_prompts"]

OpenFn = Callable[[], Engine]
"""A fresh engine that serves version 0; may block, and is called in a thread."""
ReferenceFn = Callable[[int, Ids], NDArray[np.float32]]
"""(n − 1, V) nats at temperature 1: what the weights of a version say behind each token of a context but the last."""
PublishFn = Callable[[int], WeightsManifest]
"""Lays out the weights of a version, so that the engine can take them."""


class Fault(Exception):  # noqa: N818 - a finding on its way, not an error of ours
    """A promise that was not kept, in a sentence; the battery turns it into a finding."""


class Inapplicable(Exception):  # noqa: N818 - likewise
    """A promise that this engine does not make, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One promise of the engine protocol, and whether it was kept."""

    item: str
    status: Literal["passed", "failed", "skipped"]
    sentence: str
    """What was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An engine with what is needed to judge it."""

    open: OpenFn
    reference: ReferenceFn
    prompts: tuple[Ids, ...]
    """At least four, of several lengths, each shorter than half of the context."""
    publish: PublishFn | None = None
    """None: the engine takes no weights here."""
    policy: str = "policy"
    tolerance: float = 1e-3
    """Nats by which a log-probability may be off. In float32 two implementations differ by about 1e-5."""
    patience_s: float = 60.0
    """For one answer; then the item has failed."""
    decode_text: Callable[[Sequence[int]], str] | None = None
    """Token ids to text; None: stop strings are not asked for."""
    new_tokens: int = 12
    """Of an ordinary turn."""


def varied_prompts(vocab: int, longest: int, count: int = 6) -> tuple[Ids, ...]:
    """Prompts all over a vocabulary, each of another length and different from the first token on.

    Args:
        vocab: number of token ids.
        longest: tokens of the longest.
        count: how many.
    """
    lengths = np.linspace(3, max(3, longest), count).astype(int)
    return tuple(
        ids((np.arange(length) ** 2 * 31 + np.arange(length) * 7919 + row * 104729 + 1) % vocab)
        for row, length in enumerate(lengths.tolist())
    )
