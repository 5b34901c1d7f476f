"""The tokens of a segment as HTML: thousands a page, so they are written here and not by a template."""

from collections.abc import Sequence
from functools import lru_cache

from markupsafe import Markup, escape

from rollwright.viewer.page.text import show_hidden
from rollwright.viewer.page.token_numbers import TokenNumbers

__all__ = ["token_html"]


def token_html(
    tokens: Sequence[TokenNumbers], tones: Sequence[str], texts: Sequence[str], controls: Sequence[bool]
) -> Markup:
    """One element a token: its text, its tone, and its numbers for pointer, keyboard and screen reader.

    Args:
        tokens: of one segment, in order; the others have one entry a token too.
        tones: a class each, or nothing.
        texts: as the tokenizer reads them.
        controls: True for control tokens.
    """
    return Markup("").join(
        _one(token, tone, text, is_control)
        for token, tone, text, is_control in zip(tokens, tones, texts, controls, strict=True)
    )


def _one(token: TokenNumbers, tone: str, text: str, is_control: bool) -> Markup:  # noqa: FBT001 - from a column
    words = ("t", tone, "sampled" if token.behavior is not None else "", "control" if is_control else "")
    numbers = " · ".join(f"{name}: {value}" for name, value in token.lines())
    return Markup('<span class="{}" title="{}">{}</span>').format(
        " ".join(word for word in words if word), numbers, _shown(text)
    )


@lru_cache(maxsize=100_000)
def _shown(text: str) -> Markup:
    return escape(show_hidden(text))
