"""Whether a program printed what was expected: text and integers exactly, decimals within a tolerance, lines kept."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["PROGRAM_OUTPUT_REVISION", "OutputRule", "same_output"]

PROGRAM_OUTPUT_REVISION = 2
_MAX_NUMBER_CHARACTERS = 400
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRule:
    """What counts as the same output."""

    tolerance: float = 1e-6
    """Of two numbers of which one is written as a decimal: absolute where an integer is expected, else absolute or
    relative."""


def same_output(actual: str, expected: str, rule: OutputRule | None = None) -> bool:
    """Whether the output is the expected one.

    Ends are stripped; then line by line and token by token, equal text passes, two integers must be equal, and other
    numbers agree within the tolerance. Blanks between tokens do not count, line breaks do.

    Args:
        actual: what the program wrote.
        expected: what it should have written.
        rule: the tolerance.
    """
    settings = rule or OutputRule()
    given, wanted = actual.strip().splitlines(), expected.strip().splitlines()
    if len(given) != len(wanted):
        return False
    return all(_same_line(one, other, settings.tolerance) for one, other in zip(given, wanted, strict=True))


def _same_line(given: str, wanted: str, tolerance: float) -> bool:
    ours, theirs = given.split(), wanted.split()
    if len(ours) != len(theirs):
        return False
    return all(one == other or _close(one, other, tolerance) for one, other in zip(ours, theirs, strict=True))


def _close(given: str, wanted: str, tolerance: float) -> bool:
    if max(len(given), len(wanted)) > _MAX_NUMBER_CHARACTERS:
        return False
    if _INTEGER.fullmatch(given) and _INTEGER.fullmatch(wanted):
        return int(given) == int(wanted)
    if not (_DECIMAL.fullmatch(given) and _DECIMAL.fullmatch(wanted)):
        return False
    one, other = float(given), float(wanted)
    if not (math.isfinite(one) and math.isfinite(other)):
        return False
    if _INTEGER.fullmatch(wanted):  # 1000000000.0 is not 1000000007, however near.
        return abs(Fraction(given) - int(wanted)) <= Fraction(tolerance)
    return abs(one - other) <= tolerance * max(1.0, abs(other))
