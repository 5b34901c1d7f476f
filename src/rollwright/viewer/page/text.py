"""What a model, a tool or a person wrote, made safe to look at: nothing hidden, nothing that turns text around.

HTML is escaped by the templates. Here characters that a reader would not see, or that change how their neighbours are
shown, become visible words.
"""

import re
import unicodedata

__all__ = ["clip", "show_hidden"]

_SUSPECT = re.compile(r"[^\x20-\x7e\n\t\u00a1-\u00ac\u00ae-\u02ff\u4e00-\u9fef\uac00-\ud7a3]")


def show_hidden(text: str) -> str:
    """The text with every invisible or direction-changing character named in place: `⟨U+001B⟩[31m`.

    Args:
        text: anything; a lone surrogate is named too, so that the result can always be encoded.
    """
    return _SUSPECT.sub(_named, text)


def clip(text: str, limit: int) -> str:
    """At most `limit` characters, and how many are left out."""
    return text if len(text) <= limit else f"{text[:limit]} … ({len(text) - limit:,} more characters)"


def _named(match: re.Match[str]) -> str:
    character = match[0]
    # Controls, formats (bidi, zero width), surrogates, private and unassigned; separators other than a space.
    category = unicodedata.category(character)
    if category.startswith("C") or category in ("Zl", "Zp") or _is_blank(character):
        return f"⟨U+{ord(character):04X}⟩"
    return character


def _is_blank(character: str) -> bool:
    """True for what draws nothing although it is no control: fillers, blanks and variation selectors."""
    return character in "\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5" or (
        "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    )
