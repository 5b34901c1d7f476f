"""Text of made-up tokens, for stop strings."""

MAX_CONTEXT = 64
"""Of the small engines that the battery is run over."""


def as_text(token_ids):
    """A letter a token."""
    return "".join(chr(ord("0") + token) for token in token_ids)
