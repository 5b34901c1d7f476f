"""Whether a text says anything: what nobody can see is not said."""

import unicodedata

__all__ = ["is_blank"]

_INVISIBLE = frozenset({"Cc", "Cf", "Mn", "Zl", "Zp", "Zs"})


def is_blank(text: str) -> bool:
    """Whether nothing can be seen of it: it holds blanks, control characters and marks without width alone."""
    return all(unicodedata.category(character) in _INVISIBLE for character in text)
