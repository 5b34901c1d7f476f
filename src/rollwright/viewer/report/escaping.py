"""Text from a run, made safe to stand in Markdown, HTML and a drawing: it may be anything that a model or tool said."""

import html
import re
import unicodedata

from rollwright.viewer.figures import Cell

__all__ = ["cell_text", "html_text", "markdown_text", "visible"]

_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>#|~&@$^!]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_BEGINS_A_BLOCK = re.compile(r"^(?:[-+=]|(\d+)(?=[.)]))")
_JOINERS = frozenset("\u200c\u200d")
"""Format characters that scripts and emoji need."""


def visible(text: str) -> str:
    """The text with each control, format or lone surrogate character written as its number.

    A line break becomes a space, so that nothing begins a line of its own; what would turn the direction of the text
    around it, or is not seen, is seen.
    """
    return "".join(_shown(character) for character in " ".join(text.split("\n")))


def html_text(text: str) -> str:
    """As the text of an element or the value of a quoted attribute."""
    return html.escape(visible(text), quote=True)


def markdown_text(text: str) -> str:
    """As inline text of GitHub's Markdown: what would be emphasis, code, HTML, a link, a cell or a block is escaped."""
    escaped = _MARKDOWN.sub(lambda mark: f"\\{mark[0]}", visible(text).strip())
    begins = _BEGINS_A_BLOCK.match(escaped)
    if begins is None:
        return escaped
    number = begins[1] or ""
    return f"{number}\\{escaped[len(number) :]}"


def cell_text(cell: Cell) -> str:
    """A cell as a person reads it; undefined is a dash."""
    match cell:
        case None:
            return "–"
        case bool() | str():
            return str(cell)
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:,.4g}" if abs(cell) < 1e4 else f"{cell:,.0f}"


def _shown(character: str) -> str:
    kind = unicodedata.category(character)
    if kind in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and character not in _JOINERS:
        return " " if character == "\t" else f"\\u{ord(character):04x}"
    return character
