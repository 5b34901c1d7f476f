"""Exact values of arithmetic expressions, within bounds, without `eval`.

The grammar is a whitelist over Python's syntax tree: numbers, `+ - * / // % **` (`^` and the signs × ÷ − are read as
`** * / -`) and parentheses. Values are exact fractions. Every operation is refused before it could grow past the
bounds, so the time is bounded too.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from types import MappingProxyType

from rollwright.tasks.errors import ExpressionError

__all__ = ["EXPRESSIONS_REVISION", "Bounds", "evaluate", "number_text"]

EXPRESSIONS_REVISION = 1
"""Of the grammar and of how values are written: what depends on them carries it in its own revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What an expression may cost."""

    characters: int = 200
    bits: int = 512
    """Of the numerator and of the denominator of every value on the way."""
    exponent: int = 512
    """Largest absolute exponent of a power or of a number in scientific notation."""


_SPELLINGS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "^": "**"})
_CHARACTERS = frozenset("0123456789+-*/%().eE ")
_DEFAULT_BOUNDS = Bounds()
_Binary = Callable[[Fraction, Fraction], Fraction | int]
_BINARY: MappingProxyType[type[ast.operator], _Binary] = MappingProxyType(
    {
        ast.Add: Fraction.__add__,
        ast.Sub: Fraction.__sub__,
        ast.Mult: Fraction.__mul__,
        ast.Div: Fraction.__truediv__,
        ast.FloorDiv: Fraction.__floordiv__,
        ast.Mod: Fraction.__mod__,
    }
)


def evaluate(expression: str, bounds: Bounds = _DEFAULT_BOUNDS) -> Fraction:
    """The exact value of an arithmetic expression.

    Args:
        expression: such as `(12 + 3.5) * 2`.
        bounds: what it may cost.

    Returns:
        The value as a fraction.

    Raises:
        ExpressionError: for anything else than bounded arithmetic, a division by zero included.
    """
    if len(expression) > bounds.characters:
        raise ExpressionError(f"expression too long ({len(expression)} characters, {bounds.characters} allowed)")
    text = expression.translate(_SPELLINGS).strip()
    if not text:
        raise ExpressionError("empty expression")
    if foreign := sorted(set(text) - _CHARACTERS):
        raise ExpressionError(f"unexpected {foreign[0]!r}: only numbers, + - * / // % ** and parentheses are allowed")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ExpressionError("not an arithmetic expression") from None
    try:
        return _value(tree.body, text, bounds)
    except ZeroDivisionError:
        raise ExpressionError("division by zero") from None


def number_text(value: Fraction, *, digits: int = 12) -> str:
    """The number in decimal: exact where it has at most `digits` decimal places, else `digits` significant digits.

    Args:
        value: any fraction.
        digits: significant digits of what has to be rounded (half to even).
    """
    if value.denominator == 1:
        return str(value.numerator)
    if 10**digits % value.denominator == 0:
        scaled = str(abs(value.numerator) * (10**digits // value.denominator)).rjust(digits + 1, "0")
        text = f"{scaled[:-digits]}.{scaled[-digits:]}".rstrip("0")
        return f"-{text}" if value < 0 else text
    context = Context(prec=digits, rounding=ROUND_HALF_EVEN)
    rounded = context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(context)
    return f"{rounded:f}" if -digits <= rounded.adjusted() <= digits else f"{rounded:e}"


def _value(node: ast.expr, text: str, bounds: Bounds) -> Fraction:
    match node:
        case ast.Constant():
            return _number(text[node.col_offset : node.end_col_offset], bounds)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, text, bounds)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, text, bounds)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left, text, bounds), _value(right, text, bounds), bounds)
        case ast.BinOp(left=left, op=kind, right=right):
            function = _BINARY.get(type(kind))
            if function is not None:
                value = function(_value(left, text, bounds), _value(right, text, bounds))
                return _bounded(Fraction(value), bounds)
        case _:
            pass
    raise ExpressionError("not an arithmetic expression")


def _number(literal: str, bounds: Bounds) -> Fraction:
    if literal.isdecimal():
        return _bounded(Fraction(int(literal)), bounds)
    mantissa, _, exponent = literal.lower().partition("e")
    if exponent and abs(int(exponent)) > bounds.exponent:
        raise ExpressionError("number out of range")
    if not mantissa.strip(".").replace(".", "", 1).isdigit():
        raise ExpressionError("not an arithmetic expression")
    return _bounded(Fraction(literal.rstrip(".") if not exponent else literal), bounds)


def _power(base: Fraction, exponent: Fraction, bounds: Bounds) -> Fraction:
    if exponent.denominator != 1:
        raise ExpressionError("the exponent of a power must be a whole number")
    size = max(abs(base.numerator), base.denominator).bit_length()
    count = abs(exponent.numerator)
    if abs(base) not in (0, 1) and (count > bounds.exponent or (size - 1) * count > bounds.bits):
        raise ExpressionError("result too large")
    if abs(base) == 1:
        return Fraction(1) if exponent.numerator % 2 == 0 else base
    if base == 0 and exponent > 0:
        return base
    return _bounded(Fraction(base**exponent.numerator), bounds)


def _bounded(value: Fraction, bounds: Bounds) -> Fraction:
    if max(abs(value.numerator), value.denominator).bit_length() > bounds.bits:
        raise ExpressionError("result too large")
    return value
