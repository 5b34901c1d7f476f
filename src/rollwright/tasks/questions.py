"""Questions about invented facts, with what has to be read for each.

    single       one passage: where somebody was born
    two_hop      two passages, the second named by the first: the region of the town where somebody was born
    bridge       from a work over its author to the author's life
    comparison   two passages side by side: who was born earlier

`info` holds `answers` (all that count as right), `queries` (what a good searcher asks) and `supporting` (titles of the
passages that are needed).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from rollwright.record import Message, digest, seed_of
from rollwright.tasks.corpora import Facts, corpus_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.mixture import Stratum, stratum_of
from rollwright.tasks.payload import Payload
from rollwright.tasks.source import SplitSizes, fill_splits

__all__ = ["BRIDGE", "COMPARISON", "QUESTION_KINDS", "SINGLE", "TWO_HOP", "question_payload", "question_strata"]

SINGLE, TWO_HOP, BRIDGE, COMPARISON = "single", "two_hop", "bridge", "comparison"
QUESTION_KINDS = (SINGLE, TWO_HOP, BRIDGE, COMPARISON)
_BUILDER = 1
"""Of the questions below; part of the revision."""
_COMPARISONS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    text: str
    answer: str
    reads: tuple[str, ...]
    """Titles, in the order in which they can be known; each is also what to search for."""


def question_strata(facts: Facts, sizes: SplitSizes, *, seed: int) -> tuple[Stratum, ...]:
    """A stratum for each kind, of equal weight; a kind with fewer questions than wanted gives all it has.

    Args:
        facts: what is asked about.
        sizes: distinct questions wanted over all kinds.
        seed: of the order.
    """
    corpus = corpus_of(facts)
    revision = f"facts:{corpus.sha256[:16]}:{digest([_BUILDER, seed])[:8]}"
    train, held_out = sizes.train, sizes.held_out
    strata: list[Stratum] = []
    for left, (kind, questions) in zip(range(len(QUESTION_KINDS), 0, -1), _kinds(facts, seed).items(), strict=True):
        part = SplitSizes(train=max(1, train // left), held_out=held_out // left)
        payloads = (
            question_payload(q.text, (q.answer,), kind=kind, queries=q.reads, supporting=q.reads) for q in questions
        )
        strata.append(stratum_of(fill_splits(payloads, part, name=f"search_{kind}", revision=revision), 1.0))
        train, held_out = train - len(strata[-1].train), held_out - len(strata[-1].held_out)
    return tuple(strata)


def question_payload(
    text: str, answers: Sequence[str], *, kind: str, queries: Sequence[str] = (), supporting: Sequence[str] = ()
) -> Payload:
    """A question with all its right answers; the first stands for them where one is shown.

    Raises:
        TaskError: for a question without an answer.
    """
    if not answers:
        raise TaskError(f"the question {text[:80]!r} has no answer")
    info = {"slice": kind, "answers": list(answers), "queries": list(queries), "supporting": list(supporting)}
    return Payload(messages=(Message(role="user", text=text),), answer=answers[0], info=info)


def _kinds(facts: Facts, seed: int) -> Mapping[str, Sequence[_Question]]:
    drawn = {
        SINGLE: list(_single(facts)),
        TWO_HOP: list(_two_hop(facts)),
        BRIDGE: list(_bridge(facts)),
        COMPARISON: list(_comparison(facts, seed)),
    }
    for kind, questions in drawn.items():
        Random(seed_of(seed, "questions", kind)).shuffle(questions)
    return drawn


def _single(facts: Facts) -> Iterator[_Question]:
    for p in facts.people:
        yield _Question(text=f"In which town was {p.name} born?", answer=p.town.name, reads=(p.name,))
        yield _Question(text=f"In which year was {p.name} born?", answer=str(p.born), reads=(p.name,))
        yield _Question(text=f"What is the profession of {p.name}?", answer=p.profession, reads=(p.name,))
    for t in facts.towns:
        yield _Question(text=f"In which region is {t.name}?", answer=t.region, reads=(t.name,))
        yield _Question(text=f"On which river is {t.name}?", answer=t.river, reads=(t.name,))
    for w in facts.works:
        yield _Question(text=f"Who wrote {w.title}?", answer=w.author.name, reads=(w.title,))


def _two_hop(facts: Facts) -> Iterator[_Question]:
    for p in facts.people:
        reads, born = (p.name, p.town.name), f"the town where {p.name} was born"
        yield _Question(text=f"In which region is {born}?", answer=p.town.region, reads=reads)
        yield _Question(text=f"On which river is {born}?", answer=p.town.river, reads=reads)
        yield _Question(text=f"In which year was {born} founded?", answer=str(p.town.founded), reads=reads)


def _bridge(facts: Facts) -> Iterator[_Question]:
    for w in facts.works:
        reads, author = (w.title, w.author.name), f"the author of {w.title}"
        yield _Question(text=f"In which town was {author} born?", answer=w.author.town.name, reads=reads)
        yield _Question(text=f"What is the profession of {author}?", answer=w.author.profession, reads=reads)
        yield _Question(text=f"In which year was {author} born?", answer=str(w.author.born), reads=reads)


def _comparison(facts: Facts, seed: int) -> Iterator[_Question]:
    chance = Random(seed_of(seed, "comparisons"))
    for _ in range(_COMPARISONS):
        one, two = chance.sample(facts.people, 2)
        if one.born != two.born:
            first = min((one, two), key=lambda p: p.born).name
            asked = f"Who was born earlier, {one.name} or {two.name}?"
            yield _Question(text=asked, answer=first, reads=(one.name, two.name))
