"""Reading numbers exactly, in the forms that may count as an answer."""

import math
import re
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction

from rollwright.tasks import Bounds, ExpressionError, evaluate

__all__ = ["Number", "NumberForm", "agree", "read_gold_number", "read_number"]

_MAX_CHARACTERS = 400
_MAX_FACTORIAL = 5000
_GOLD_BOUNDS = Bounds(characters=_MAX_CHARACTERS, bits=65536, exponent=4096)
_UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d{1,3})?|\.\d+(?:[eE][+-]?\d{1,3})?"
_LITERAL = re.compile(rf"[+-]?\s*(?:{_UNSIGNED})", re.ASCII)
_CLOSED = re.compile(
    rf"(?P<base>{_UNSIGNED})(?:(?P<factorial>!)|(?:\^|\*\*)\s*(?:\{{(?P<braced>-?\d+)\}}|(?P<power>-?\d+)))?", re.ASCII
)
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")


class NumberForm(IntEnum):
    """What an answer may look like; each form includes those before it. None includes sums and products."""

    LITERAL = 1
    """-42, 1,000, 3.5, 1e-6"""
    FRACTION = 2
    """2/3, \\frac{2}{3}"""
    CLOSED = 3
    """2^10, 1/2^99, 20!"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number as it was written."""

    value: Fraction
    is_decimal: bool
    """Written with a decimal point or an exponent of ten, so perhaps rounded."""


def read_number(text: str, form: NumberForm) -> Number | None:
    """The number, or None where the text is no number of this form. A computation is not a number.

    Args:
        text: an answer; surrounding blanks, `$` and a full stop at its end are passed over.
        form: what is allowed.
    """
    stripped = _stripped(text)
    if stripped is None:
        return None
    if _LITERAL.fullmatch(stripped):
        return _literal(stripped)
    if form < NumberForm.FRACTION:
        return None
    sign, body = (-1, stripped[1:].strip()) if stripped.startswith("-") else (1, stripped.lstrip("+").strip())
    whole = _LATEX_FRACTION.fullmatch(body)
    parts = [part.strip() for part in (whole.groups() if whole else body.split("/"))]
    if not 1 <= len(parts) <= 2:
        return None
    read = [_literal(p) if _LITERAL.fullmatch(p) else _closed(p) if form is NumberForm.CLOSED else None for p in parts]
    numbers = [number for number in read if number is not None]
    if len(numbers) < len(parts) or (len(parts) == 2 and numbers[1].value == 0):
        return None
    value = sign * numbers[0].value / (numbers[1].value if len(parts) == 2 else 1)
    return Number(value=value, is_decimal=any(number.is_decimal for number in numbers))


def read_gold_number(text: str) -> Number | None:
    """A gold number: any closed form, or an exact computation such as 10^20+1."""
    number = read_number(text, NumberForm.CLOSED)
    if number is not None:
        return number
    stripped = _stripped(text)
    if stripped is None:
        return None
    try:
        return Number(value=evaluate(stripped, _GOLD_BOUNDS), is_decimal="." in stripped)
    except ExpressionError:
        return None


def agree(gold: Number, given: Number, tolerance: float) -> bool:
    """Whether two numbers are the same: exact forms exactly, decimals within a relative tolerance.

    Args:
        gold: the right number.
        given: the answer.
        tolerance: of the difference, relative to the larger of the two; 0 compares decimals exactly too.
    """
    if gold.value == given.value:
        return True
    if not gold.is_decimal and not given.is_decimal:
        return False
    return abs(gold.value - given.value) <= Fraction(tolerance) * max(abs(gold.value), abs(given.value))


def _stripped(text: str) -> str | None:
    if len(text) > _MAX_CHARACTERS:
        return None
    stripped = text.strip()
    if len(stripped) > 1 and stripped.startswith("$") and stripped.endswith("$"):  # One alone is a currency.
        stripped = stripped[1:-1].strip()
    stripped = stripped.replace("\N{MINUS SIGN}", "-")
    if stripped.endswith(".") and stripped.count(".") == 1:
        stripped = stripped[:-1].rstrip()
    return stripped or None


def _literal(text: str) -> Number:
    plain = text.replace(",", "").replace(" ", "").lower()
    mantissa, _, exponent = plain.partition("e")
    value = Fraction(mantissa.rstrip(".")) * Fraction(10) ** int(exponent or 0)
    return Number(value=value, is_decimal="." in plain or "e" in plain)


def _closed(text: str) -> Number | None:
    match = _CLOSED.fullmatch(text)
    if match is None:
        return None
    base = _literal(match["base"])
    if match["factorial"]:
        if base.value.denominator != 1 or base.value > _MAX_FACTORIAL:
            return None
        return Number(value=Fraction(math.factorial(base.value.numerator)), is_decimal=False)
    exponent = int(match["braced"] or match["power"] or 1)
    bits = max(base.value.numerator, base.value.denominator).bit_length() * abs(exponent)
    if bits > _GOLD_BOUNDS.bits or (base.value == 0 and exponent < 0):
        return None
    return Number(value=Fraction(base.value**exponent), is_decimal=base.is_decimal)
