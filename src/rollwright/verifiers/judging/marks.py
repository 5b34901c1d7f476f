"""A judge's verdict line, told from what the judge quotes.

A mark is `WORD: value` or `WORD label: value`. Only the judge's own marks count: none inside quotation marks, a quoted
block or a fenced one. Whatever is not exactly as the protocol asks gives nothing, never a number.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rollwright.verifiers.errors import VerifierSetupError

__all__ = ["MARK_WORDS", "Mark", "Scale", "begins_fence", "own_marks", "read_choice", "read_grade", "read_labeled"]

MARK_WORDS = ("GRADE", "VERDICT", "RANKING", "SCORE", "ITEM", "CANDIDATE", "FIELD")
"""Words that begin a verdict in one of the protocols; what is graded may hold none of them as a mark."""
_MARK = re.compile(rf"(?<![\w-])({'|'.join(MARK_WORDS)})(?:[ \t]+([A-Za-z0-9][A-Za-z0-9_.-]*))?[ \t]*:")
_CLOSING = {
    '"': '"',
    "`": "`",
    "'": "'",
    "\u201c": "\u201d",
    "\u2018": "\u2019",
    "\u00ab": "\u00bb",
    "\u201e": "\u201c",
}
_NUMBER = re.compile(r"[+-]?[0-9]{1,6}(?:\.[0-9]{1,6})?")
_FENCES = ("```", "~~~")
_ORNAMENT = "*_ \t"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One of the judge's own marks."""

    word: str
    label: str
    """Empty where the mark has none."""
    value: str
    """The rest of its line, or what stands before the next mark."""
    is_at_end: bool
    """Nothing but blanks follows in the whole text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Grades that the protocol allows, ends included."""

    low: float = 0.0
    high: float = 10.0

    def __post_init__(self) -> None:
        """Refuse a scale of one grade."""
        if not self.low < self.high:
            raise VerifierSetupError(f"a scale from {self.low:g} to {self.high:g} has no grades; the first is lower")

    def share(self, grade: float) -> float:
        """The grade's place between the ends, in [0, 1]."""
        return (grade - self.low) / (self.high - self.low)

    def read(self, value: str) -> float | None:
        """A number inside the scale, or nothing."""
        plain = value.strip(_ORNAMENT).removesuffix(".").strip(_ORNAMENT)
        if _NUMBER.fullmatch(plain) is None:
            return None
        number = float(plain)
        return number if self.low <= number <= self.high else None


def begins_fence(line: str) -> bool:
    """Whether a line opens or closes a fenced block."""
    return line.strip().startswith(_FENCES)


def own_marks(text: str, word: str) -> tuple[Mark, ...]:
    """The judge's own marks of that word, in order; those that it quotes are left out."""
    found: list[Mark] = []
    is_fenced = False
    lines = text.rstrip().split("\n")
    for number, line in enumerate(lines):
        if begins_fence(line):
            is_fenced = not is_fenced
        elif not is_fenced and not line.strip().startswith(">"):
            found += _in_line(line, word, is_last=number == len(lines) - 1)
    return tuple(found)


def read_grade(text: str, scale: Scale) -> float | None:
    """The grade of a reply that ends in `GRADE: n`.

    Returns:
        None where no own verdict ends the reply, where there are two, or where the number lies outside the scale.
    """
    marks = own_marks(text, "GRADE")
    return scale.read(marks[0].value) if len(marks) == 1 and marks[0].is_at_end else None


def read_choice(text: str, choices: Sequence[str]) -> str | None:
    """The choice of a reply that ends in `VERDICT: CHOICE`; None as in `read_grade`."""
    marks = own_marks(text, "VERDICT")
    if len(marks) != 1 or not marks[0].is_at_end:
        return None
    plain = marks[0].value.strip(_ORNAMENT).removesuffix(".").strip(_ORNAMENT)
    return plain if plain in choices else None


def read_labeled(text: str, word: str, labels: Sequence[str]) -> tuple[str, ...] | None:
    """The values of `WORD label: value`, one own mark for each label.

    Args:
        text: the reply.
        word: of the marks.
        labels: that must stand there, each once, in any order and no other.

    Returns:
        Values in the order of `labels`; None where a mark is missing, doubled or foreign.
    """
    marks = own_marks(text, word)
    values = {mark.label: mark.value.strip(_ORNAMENT) for mark in marks}
    if len(marks) != len(labels) or set(values) != set(labels):
        return None
    return tuple(values[label] for label in labels)


def _in_line(line: str, word: str, *, is_last: bool) -> list[Mark]:
    quoted = _quoted(line)
    places = [match for match in _MARK.finditer(line) if not quoted[match.start()]]
    found: list[Mark] = []
    for place, match in enumerate(places):
        is_final = place == len(places) - 1
        value = line[match.end() : None if is_final else places[place + 1].start()]
        if match[1] == word:
            found.append(Mark(word=word, label=match[2] or "", value=value, is_at_end=is_last and is_final))
    return found


def _quoted(line: str) -> list[bool]:
    """For each character whether it stands in quotation marks; an opened quotation reaches to the end of the line."""
    inside = [False] * len(line)
    closing = ""
    for place, character in enumerate(line):
        if closing:
            inside[place] = True
            if character == closing and (closing != "'" or not _is_word(line, place + 1)):
                closing = ""
        elif character in _CLOSING and (character != "'" or not _is_word(line, place - 1)):
            closing = _CLOSING[character]
            inside[place] = True
    return inside


def _is_word(line: str, place: int) -> bool:
    return 0 <= place < len(line) and line[place].isalnum()
