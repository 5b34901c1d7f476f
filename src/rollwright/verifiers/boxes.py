r"""The boxes of a text, `\boxed{}` and `\fbox{}`, as places in it.

Boxes in boxes hold more text together than the text is long, up to its square. So places are found in one pass, and
what a box holds is cut out where somebody reads it.
"""

import re
from dataclasses import dataclass

__all__ = ["Box", "begins_box", "boxed", "boxes", "without_wrapping_boxes"]

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
"""An escaped brace is a brace of the answer, not of the box."""


@dataclass(frozen=True, slots=True)
class Box:
    """A complete box: the places of its braces."""

    opening: int
    closing: int

    def held(self, text: str) -> str:
        """What it holds, without blanks around it."""
        return text[self.opening + 1 : self.closing].strip()


def boxed(text: str) -> tuple[str, ...]:
    r"""What each complete `\boxed{}` or `\fbox{}` holds, braces balanced, in the order in which they begin."""
    return tuple(box.held(text) for box in boxes(text))


def boxes(text: str) -> list[Box]:
    """Each complete box, braces balanced, in the order in which they begin."""
    begins = {match.end() - 1 for match in _BOX.finditer(text)}
    if not begins:
        return []
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    for match in _BRACE.finditer(text):  # One pass, however many boxes are begun and never closed.
        place = match.start()
        if text[place] == "{":
            opened.append(place)
        elif text[place] == "}" and opened and (start := opened.pop()) in begins:
            found.append((start, place))
    return [Box(*braces) for braces in sorted(found)]


def begins_box(text: str) -> bool:
    """Whether a box begins somewhere, complete or not."""
    return _BOX.search(text) is not None


def without_wrapping_boxes(text: str, found: list[Box]) -> list[Box]:
    """Without the boxes that hold one box and nothing else.

    Args:
        text: that they stand in.
        found: all of its boxes, in the order in which they begin.
    """
    return [box for place, box in enumerate(found) if not _is_wrapping(text, box, found[place + 1 : place + 3])]


def _is_wrapping(text: str, box: Box, following: list[Box]) -> bool:
    """Whether the first that follows is all that a box holds; boxes lie in each other or apart."""
    inner = [one for one in following if one.closing < box.closing]
    if len(inner) != 1:
        return False
    before = text[box.opening + 1 : inner[0].opening + 1].lstrip()
    return _BOX.fullmatch(before) is not None and not text[inner[0].closing + 1 : box.closing].strip()
