"""Passages that can be searched: a corpus with a digest, read from a file or made of invented facts.

The invented people, towns and works exist nowhere else, so what a model answers about them it has read.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from rollwright.record import digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import read_json

__all__ = ["Corpus", "Document", "Facts", "Person", "Town", "Work", "corpus_of", "invented_facts", "read_corpus"]

_BEGINNINGS = ("Bel", "Cor", "Dra", "Fen", "Gal", "Hol", "Jas", "Kel", "Lor", "Mer", "Nor", "Pel", "Quin", "Ros", "Tal")
_MIDDLES = ("a", "e", "i", "o", "u")
_ENDINGS = ("bran", "dell", "fin", "gard", "lock", "mont", "nor", "ric", "stan", "tor", "ven", "wick")
_ADJECTIVES = ("Amber", "Broken", "Crimson", "Distant", "Frozen", "Hollow", "Ivory", "Quiet", "Silver", "Winding")
_NOUNS = ("Anchor", "Bridge", "Candle", "Falcon", "Garden", "Harbor", "Lantern", "Mirror", "Orchard", "Tower")
_PROFESSIONS = ("architect", "botanist", "composer", "engineer", "geologist", "painter", "poet", "surgeon")
_BUILDER = 1
"""Of the facts and sentences below; part of every digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One passage."""

    title: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Passages in order."""

    name: str
    documents: tuple[Document, ...]

    def __post_init__(self) -> None:
        """Refuse a corpus in which nothing could be found."""
        if not self.documents:
            raise TaskError(f"corpus {self.name} holds no passage")

    @cached_property
    def sha256(self) -> str:
        """Of all titles and texts, in order."""
        return digest([[document.title, document.text] for document in self.documents])


@dataclass(frozen=True, slots=True, kw_only=True)
class Town:
    """Where people are born."""

    name: str
    region: str
    river: str
    founded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who is born somewhere and may write."""

    name: str
    profession: str
    town: Town
    born: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What somebody wrote."""

    title: str
    author: Person
    year: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A small world of which passages and questions are made."""

    people: tuple[Person, ...]
    towns: tuple[Town, ...]
    works: tuple[Work, ...]


def invented_facts(*, people: int = 60, seed: int = 0) -> Facts:
    """People, a third as many towns, and two thirds as many works.

    Args:
        people: 3 to 600.
        seed: of all names and numbers.
    """
    if not 3 <= people <= 600:
        raise TaskError(f"{people} invented people; allowed are 3 to 600, so that names and titles do not run out")
    chance = Random(seed_of(seed, "facts", _BUILDER))
    names = _names(chance)
    regions, rivers = [next(names) for _ in range(8)], [next(names) for _ in range(12)]
    towns = tuple(
        Town(
            name=next(names),
            region=chance.choice(regions),
            river=chance.choice(rivers),
            founded=chance.randint(900, 1700),
        )
        for _ in range(max(1, people // 3))
    )
    persons = tuple(
        Person(
            name=f"{next(names)} {next(names)}",
            profession=chance.choice(_PROFESSIONS),
            town=chance.choice(towns),
            born=chance.randint(1800, 1950),
        )
        for _ in range(people)
    )
    works = tuple(_work(title, chance.choice(persons), chance) for title in _titles(chance, people * 2 // 3, names))
    return Facts(people=persons, towns=towns, works=works)


def corpus_of(facts: Facts) -> Corpus:
    """A passage for each person, town and work."""
    people = [
        Document(title=p.name, text=f"The profession of {p.name} is {p.profession}. Born in {p.town.name} in {p.born}.")
        for p in facts.people
    ]
    towns = [
        Document(
            title=t.name,
            text=f"{t.name} is a town in the region of {t.region}, on the river {t.river}, founded in {t.founded}.",
        )
        for t in facts.towns
    ]
    works = [
        Document(title=w.title, text=f"{w.title} is a novel by {w.author.name}, published in {w.year}.")
        for w in facts.works
    ]
    return Corpus(name="invented", documents=(*people, *towns, *works))


def read_corpus(path: Path, *, sha256: str) -> Corpus:
    """Read passages from a file of one JSON object a line.

    Args:
        path: each line has `title` and `text`, or `contents`: the title in quotation marks on its first line, as in the
            dump that Search-R1 searches.
        sha256: of the file; another one is refused.

    Raises:
        TaskError: for a file that is missing, another file, or a bad line.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise TaskError(f"cannot read the corpus {path}: {error.strerror}") from error
    found = hashlib.sha256(raw).hexdigest()
    if found != sha256:
        raise TaskError(
            f"the corpus {path} has sha256 {found}; the recipe names {sha256}. An index of other passages is another "
            "environment: restore the file, or name the new digest on purpose"
        )
    documents = tuple(_document(line, number) for number, line in enumerate(raw.splitlines(), start=1) if line.strip())
    return Corpus(name=path.stem, documents=documents)


def _document(line: bytes, number: int) -> Document:
    try:
        row = read_json(line.decode())
    except ValueError as error:
        raise TaskError(f"line {number} of the corpus is no JSON: {error}") from error
    if isinstance(row, Mapping):
        title, text, contents = row.get("title"), row.get("text"), row.get("contents")
        if isinstance(title, str) and isinstance(text, str):
            return Document(title=title, text=text)
        if isinstance(contents, str):
            head, _, body = contents.partition("\n")
            return Document(title=head.strip().strip('"'), text=body.strip())
    raise TaskError(f"line {number} of the corpus needs `title` and `text`, or `contents`, all text")


def _work(title: str, author: Person, chance: Random) -> Work:
    return Work(title=title, author=author, year=author.born + chance.randint(20, 60))


def _names(chance: Random) -> Iterator[str]:
    """Every name once; they grow a syllable where the short ones are used up."""
    short = [b + m + e for b in _BEGINNINGS for m in _MIDDLES for e in _ENDINGS]
    chance.shuffle(short)
    yield from short
    long = [b + m + "l" + n + e for b in _BEGINNINGS for m in _MIDDLES for n in _MIDDLES for e in _ENDINGS]
    chance.shuffle(long)
    yield from long


def _titles(chance: Random, count: int, names: Iterator[str]) -> Sequence[str]:
    plain = [f"The {adjective} {noun}" for adjective in _ADJECTIVES for noun in _NOUNS]
    chance.shuffle(plain)
    named = (f"The {chance.choice(_NOUNS)} of {next(names)}" for _ in range(count))
    return [*plain[:count], *(next(named) for _ in range(max(0, count - len(plain))))]
