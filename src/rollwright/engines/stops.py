"""Finds stop strings in what was drawn, without decoding the whole turn again for each token."""

from collections.abc import Callable, Sequence

from numpy import int32
from numpy.typing import NDArray

__all__ = ["DecodeText", "ends_in_stop_string"]

DecodeText = Callable[[Sequence[int]], str]
"""Token ids to text, special tokens included."""

_MARGIN_TOKENS = 8


def ends_in_stop_string(token_ids: NDArray[int32], stops: tuple[str, ...], decode: DecodeText) -> bool:
    """Whether the text of a turn has come to hold a stop string with its last token.

    Args:
        token_ids: (n,) of the turn.
        stops: strings, none of them empty.
        decode: ids to text.

    Returns:
        True when one of `stops` stands in the text's end. The window grows until it is longer than the longest stop, so
        tokens that decode to nothing hide none.
    """
    longest = max(len(stop) for stop in stops)
    size = max(len(stop.encode()) for stop in stops) + _MARGIN_TOKENS
    while True:
        text = decode(token_ids[-size:].tolist())
        if any(stop in text for stop in stops):
            return True
        if size >= len(token_ids) or len(text) > longest + _MARGIN_TOKENS:
            return False
        size *= 2
