"""BM25 over a corpus (by `bm25s`), as a tool and for the tagged form; what was indexed has a digest."""

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from rollwright.environments.errors import EnvironmentSetupError, ToolError
from rollwright.environments.tools import Tool, tool_of
from rollwright.record import digest
from rollwright.tasks import Corpus, Document

__all__ = ["PassageIndex", "open_index", "passages_text", "search_tool"]

_WORD = re.compile(r"\w+")
_K1, _B = 1.2, 0.75
_RULES = 1
"""Of the words and the order below; part of the digest."""
_MOST_WORDS = 64


class _Ranking(Protocol):
    """The part of `bm25s.BM25` that is used here, with types."""

    def index(self, corpus: list[list[str]], *, show_progress: bool) -> None: ...

    def get_scores(self, query_tokens_single: list[str]) -> NDArray[np.float32]: ...


class PassageIndex:
    """A corpus that can be searched; equal queries give equal passages in equal order."""

    def __init__(self, corpus: Corpus, *, top_k: int = 3) -> None:
        """Index every passage by the words of its title and its text."""
        import bm25s  # Here, because it takes a quarter of a second that only searching is worth.

        if not 1 <= top_k <= 50:
            raise EnvironmentSetupError(f"top_k is {top_k}; allowed are 1 to 50 passages")
        self._corpus = corpus
        self._top_k = top_k
        self._ranking = cast("_Ranking", bm25s.BM25(k1=_K1, b=_B, method="lucene"))
        words = [_words(f"{document.title} {document.text}") for document in corpus.documents]
        self._known = frozenset(word for one in words for word in one)
        self._ranking.index(words, show_progress=False)
        self._sha256 = digest([_RULES, "bm25s", version("bm25s"), _K1, _B, top_k, corpus.sha256])

    @property
    def sha256(self) -> str:
        """Of the passages, the ranking and how many are shown."""
        return self._sha256

    def search(self, query: str) -> tuple[Document, ...]:
        """The best passages that share a word with the query, best first; ties in the corpus's order."""
        words = [word for word in _words(query)[:_MOST_WORDS] if word in self._known]
        if not words:
            return ()
        scores = self._ranking.get_scores(words)
        order: list[int] = np.argsort(-scores, kind="stable")[: self._top_k].tolist()
        return tuple(self._corpus.documents[place] for place in order if scores[place] > 0)


def open_index(corpus: Corpus, *, top_k: int = 3, sha256: str = "") -> PassageIndex:
    """Make an index, and refuse another one than was named.

    Args:
        corpus: what is searched.
        top_k: passages that are shown.
        sha256: that the index must have; empty: whatever it is.

    Raises:
        EnvironmentSetupError: for an index that has changed.
    """
    index = PassageIndex(corpus, top_k=top_k)
    if sha256 and index.sha256 != sha256:
        raise EnvironmentSetupError(
            f"the index of corpus {corpus.name} has sha256 {index.sha256}; {sha256} was named. Passages, ranking, "
            "top_k or bm25s have changed: restore them, or name the new digest on purpose"
        )
    return index


def passages_text(documents: Sequence[Document]) -> str:
    """Passages as the policy reads them."""
    if not documents:
        return "no passage matches"
    return "\n".join(f"[{number}] {d.title}: {d.text}" for number, d in enumerate(documents, start=1))


def search_tool(index: PassageIndex) -> Tool:
    """`search(query)`; the index's digest is part of its revision, and so of the environment's."""

    def search(query: str) -> str:
        """Find passages.

        Args:
            query: a name or a few words
        """
        if not query.strip():
            raise ToolError("the query is empty; name what you look for")
        return passages_text(index.search(query))

    return tool_of(search, settings={"index": index.sha256}, is_quick=True)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
