"""How much of a held-out set stands in what is trained on, and where: counts, rates with intervals, the worst pairs.

exact        the same text
normalized   the same words in the same order: case, signs and blanks aside
words        a run of 13 words in common, but for what a tenth of either set says
characters   for texts of fewer words: nearly the same runs of 5 characters
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rollwright.record import digest
from rollwright.statistics import Interval, wilson_interval
from rollwright.tasks.contamination.near_copies import Sides, nearest_copies
from rollwright.tasks.contamination.shingles import (
    Shingles,
    character_shingles,
    common_in,
    frequent,
    without,
    word_shingles,
)
from rollwright.tasks.errors import TaskError

__all__ = [
    "AUDIT_RULES",
    "KINDS",
    "AskedText",
    "Overlap",
    "OverlapCount",
    "OverlapKind",
    "OverlapPair",
    "OverlapRules",
    "find_overlap",
]

OverlapKind = Literal["exact", "normalized", "words", "characters"]
KINDS: tuple[OverlapKind, ...] = ("exact", "normalized", "words", "characters")
_WORD = re.compile(r"\w+|[-+*/^=<>%±×÷−]")
"""Signs of a calculation are words: 2+8 is not 2-8."""
_REVISION = 1
"""Of what the kinds mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedText:
    """A task as text."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapRules:
    """What counts as the same."""

    words: int = 13
    """Length of a run of words."""
    characters: int = 5
    """Length of a run of characters; for texts with fewer words than a run of words has."""
    near: float = 0.8
    """Share of such runs (Jaccard) from which a text is nearly another."""
    wording: float = 0.1
    """Share of a set's texts above which a run is wording of the set."""

    def __post_init__(self) -> None:
        """Refuse rules under which everything or nothing is the same."""
        if self.words < 2 or self.characters < 2 or not 0 < self.near <= 1 or not 0 < self.wording <= 1:
            raise TaskError(
                f"runs of {self.words} words and {self.characters} characters, near from {self.near}, wording above "
                f"{self.wording}; runs are at least 2 long, both shares above 0 and at most 1"
            )

    @property
    def revision(self) -> str:
        """A digest of the method and its numbers."""
        return digest([_REVISION, self.words, self.characters, self.near, self.wording])[:16]


AUDIT_RULES = OverlapRules()
"""Of the audit that a run makes of its own tasks; their revision is in its manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapCount:
    """Texts of the second set that stand in the first, by one kind."""

    kind: OverlapKind
    num: int
    num_comparable: int
    """Texts that this kind can be asked of."""
    rate: float | None
    """None where it can be asked of none."""
    interval: Interval
    """Wilson's, as if the set were drawn from a larger one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapPair:
    """A text of the second set with what it was found in."""

    kind: OverlapKind
    share: float
    """Of its runs that are in common; 1 for equal texts."""
    first: AskedText
    second: AskedText


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """All that was found."""

    num_first: int
    num_second: int
    counts: tuple[OverlapCount, ...]
    pairs: tuple[OverlapPair, ...]
    """The worst, each text of the second set once."""
    rules: OverlapRules

    def count(self, kind: OverlapKind) -> OverlapCount:
        """Of one kind."""
        return next(one for one in self.counts if one.kind == kind)

    @property
    def num_leaked(self) -> int:
        """Texts of the second set that are equal to one of the first, or share a run of words with it."""
        return self.count("normalized").num + self.count("words").num

    @property
    def rate(self) -> float:
        """Share of the second set that leaked."""
        return self.num_leaked / self.num_second if self.num_second else 0.0


def find_overlap(
    first: Sequence[AskedText], second: Sequence[AskedText], rules: OverlapRules | None = None, *, worst: int = 20
) -> Overlap:
    """Look for the second set in the first; time and memory grow with the size of both, never with their product.

    Args:
        first: what is trained on.
        second: what is held out.
        rules: what counts as the same.
        worst: pairs that are kept.
    """
    chosen = rules or OverlapRules()
    words = [[_words(one.text) for one in side] for side in (first, second)]
    equal = _equal(first, second, words)
    is_free = np.array([one not in equal for one in range(len(second))], dtype=np.bool_)
    by_words = _by_words(words, chosen, is_free)
    by_characters = _by_characters(words, chosen, is_free)
    found: list[tuple[float, int, OverlapKind, int]] = [
        *((1.0, text, kind, place) for text, (kind, place) in equal.items()),
        *((share, text, "words", place) for text, (share, place) in by_words.items()),
        *((share, text, "characters", place) for text, (share, place) in by_characters.items()),
    ]
    found.sort(key=lambda one: (KINDS.index(one[2]), -one[0], one[1]))
    sizes = np.array([len(one) for one in words[1]], dtype=np.int64)
    is_short = sizes < chosen.words
    exact = sum(kind == "exact" for kind, _ in equal.values())
    return Overlap(
        num_first=len(first),
        num_second=len(second),
        counts=(
            _count("exact", exact, len(second)),
            _count("normalized", len(equal), len(second)),
            _count("words", len(by_words), int((~is_short).sum())),
            _count("characters", len(by_characters), int(is_short.sum())),
        ),
        pairs=tuple(
            OverlapPair(kind=kind, share=share, first=first[place], second=second[text])
            for share, text, kind, place in found[:worst]
        ),
        rules=chosen,
    )


def _words(text: str) -> list[str]:
    folded = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _WORD.findall(folded.casefold())


def _equal(
    first: Sequence[AskedText], second: Sequence[AskedText], words: Sequence[Sequence[list[str]]]
) -> Mapping[int, tuple[OverlapKind, int]]:
    """Texts of the second set that are the same as one of the first, as written or as words."""
    written: dict[str, int] = {}
    said: dict[tuple[str, ...], int] = {}
    for place, (one, spoken) in enumerate(zip(first, words[0], strict=True)):
        written.setdefault(one.text, place)
        said.setdefault(tuple(spoken), place)
    found: dict[int, tuple[OverlapKind, int]] = {}
    for text, (one, spoken) in enumerate(zip(second, words[1], strict=True)):
        if (place := written.get(one.text)) is not None:
            found[text] = ("exact", place)
        elif spoken and (place := said.get(tuple(spoken))) is not None:
            found[text] = ("normalized", place)
    return found


def _by_words(
    words: Sequence[Sequence[list[str]]], rules: OverlapRules, is_free: NDArray[np.bool_]
) -> Mapping[int, tuple[float, int]]:
    """Texts with a run of words in common: the share of their runs, and where most of these stand."""
    known: dict[str, int] = {}
    first, second = (_told_apart(word_shingles(side, rules.words, known), rules) for side in words)
    wording = np.union1d(first[1], second[1])
    runs, wanted = without(first[0], wording), without(second[0], wording)
    is_common = common_in(wanted, runs)
    hits = np.bincount(wanted.owners[is_common], minlength=wanted.num_texts)
    texts = np.flatnonzero((hits > 0) & is_free)
    if not len(texts):
        return {}
    is_shared = common_in(runs, wanted)
    hashes, owners = runs.hashes[is_shared], runs.owners[is_shared]
    order = np.argsort(hashes, kind="stable")
    ordered, sizes = hashes[order], wanted.sizes
    begins = np.searchsorted(wanted.owners, texts, "left")
    found: dict[int, tuple[float, int]] = {}
    for text, begin in zip(texts, begins, strict=True):
        own = slice(begin, begin + sizes[text])
        common = wanted.hashes[own][is_common[own]]
        places, counts = np.unique(owners[order[np.searchsorted(ordered, common)]], return_counts=True)
        found[int(text)] = (float(hits[text] / sizes[text]), int(places[counts.argmax()]))
    return found


def _by_characters(
    words: Sequence[Sequence[list[str]]], rules: OverlapRules, is_free: NDArray[np.bool_]
) -> Mapping[int, tuple[float, int]]:
    """Short texts of the second set that are nearly one of the first, which may be up to twice as long."""
    limits = (2 * rules.words, rules.words)
    places = [
        [place for place, one in enumerate(side) if len(one) < most] for side, most in zip(words, limits, strict=True)
    ]
    texts = [[" ".join(side[place]) for place in kept] for side, kept in zip(words, places, strict=True)]
    if not texts[0] or not texts[1]:
        return {}
    first, second = (_told_apart(character_shingles(side, rules.characters), rules) for side in texts)
    wording = np.union1d(first[1], second[1])
    own = [without(side, wording) for side, _ in (first, second)]
    copies = nearest_copies(Sides(*own, whole=(first[0], second[0])), rules.near)
    return {
        places[1][int(text)]: (float(copies.shares[text]), places[0][int(copies.places[text])])
        for text in np.flatnonzero(copies.shares >= rules.near)
        if is_free[places[1][int(text)]]
    }


def _told_apart(shingles: Shingles, rules: OverlapRules) -> tuple[Shingles, NDArray[np.uint64]]:
    """Shingles, and those of them that are wording of the set."""
    return shingles, frequent(shingles, rules.wording, least=10)


def _count(kind: OverlapKind, num: int, of: int) -> OverlapCount:
    return OverlapCount(
        kind=kind, num=num, num_comparable=of, rate=num / of if of else None, interval=wilson_interval(num, of)
    )
