"""What tokens say, by the tokenizer that a run folder carries."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tokenizers import Tokenizer

__all__ = ["TokenText"]


class TokenText:
    """Reads tokens of one run as text; control tokens are written out."""

    def __init__(self, backend: Tokenizer) -> None:
        """Use `of`."""
        self._backend = backend
        self.size = backend.get_vocab_size(with_added_tokens=True)

    @classmethod
    def of(cls, folder: Path) -> Self | None:
        """Of a tokenizer's folder; None where it holds none that can be read."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            return None
        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception:  # noqa: BLE001 - the tokenizers library raises no narrower class for a file that it cannot read
            return None

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens; what is no whole character is shown as one that stands for it."""
        return self._backend.decode([int(i) for i in token_ids], skip_special_tokens=False)

    def has(self, token_id: int) -> bool:
        """True for an id of the vocabulary."""
        return self._backend.id_to_token(token_id) is not None
