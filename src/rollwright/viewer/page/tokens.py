"""Tokens as text, piece by piece; where a run has no tokenizer that reads, as numbers."""

import codecs
import threading
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from rollwright.rendering import Codec, RenderingError, codec_of

__all__ = ["TokenReader"]


class TokenReader:
    """Decodes with the tokenizer that a run keeps; it is read when it is first needed."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the run's `tokenizer/`."""
        self._folder = folder
        self._lock = threading.Lock()
        self._codec: Codec | None = None
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """Why tokens are shown as numbers; None where they are not."""
        self._load()
        return self._problem

    def pieces(self, token_ids: Sequence[int]) -> list[str]:
        """A text for each token; bytes that are no whole character are written out: `⟨E2⟩`."""
        self._load()
        if self._codec is None:
            return [f"⟨{i}⟩" for i in token_ids]
        return _joined([self._bytes(i) for i in token_ids])

    def controls(self, token_ids: Sequence[int]) -> list[bool]:
        """True for each control token."""
        self._load()
        known = self._codec.control_ids if self._codec is not None else frozenset[int]()
        return [i in known for i in token_ids]

    def _bytes(self, token_id: int) -> bytes:
        assert self._codec is not None, "asked only where a tokenizer was read"
        try:
            return self._codec.bytes_of([token_id])[0]
        except RenderingError:  # of another tokenizer: the number is all that is known
            return f"⟨{token_id}⟩".encode()

    def _load(self) -> None:
        with self._lock:
            if self._codec is not None or self._problem is not None:
                return
            path = self._folder / "tokenizer.json"
            try:
                self._codec = codec_of(Tokenizer.from_str(path.read_text(encoding="utf-8")))
            except FileNotFoundError:
                self._problem = "the run keeps no tokenizer.json, so tokens are shown as their numbers"
            except Exception as error:  # noqa: BLE001 - a malformed file raises whatever stood in the way
                self._problem = f"the run's tokenizer cannot be read ({error}), so tokens are shown as their numbers"


def _joined(tokens: Sequence[bytes]) -> list[str]:
    """Texts of tokens of which several may share a character: the one that completes it shows it."""
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    shown: list[str] = []
    for token in tokens:
        try:
            shown.append(decoder.decode(token))
        except UnicodeDecodeError:
            decoder.reset()
            shown.append(token.decode("utf-8", "backslashreplace"))
    # A line end is named before it breaks the line.
    return [text.replace("\n", "↵\n") or "·" for text in shown]
