"""The calculator of TRL's side: the same values and sentences as rollwright's. The standard library alone."""

import ast
import operator
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

__all__ = ["ExpressionError", "calculator", "value_of"]

DIGITS, BITS, EXPONENT, CHARACTERS = 12, 512, 512, 200
NO_ARITHMETIC, TOO_LARGE = "not an arithmetic expression", "result too large"
ALLOWED = frozenset("0123456789+-*/%().eE ")
OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class ExpressionError(ValueError):
    """Said to the policy."""


def calculator(expression: str) -> str:
    """Work out an arithmetic expression.

    Args:
        expression: numbers, + - * / // % ** and parentheses, such as 12*(3+4)
    """
    try:
        return value_of(expression)
    except ExpressionError as error:
        return f"error: {error}"


def value_of(expression: str) -> str:
    """The exact value in decimal."""
    if len(expression) > CHARACTERS:
        raise ExpressionError(f"expression too long ({len(expression)} characters, {CHARACTERS} allowed)")
    text = expression.strip()
    if not text:
        raise ExpressionError("empty expression")
    if foreign := sorted(set(text) - ALLOWED):
        raise ExpressionError(f"unexpected {foreign[0]!r}: only numbers, + - * / // % ** and parentheses are allowed")
    try:
        return _told(_value(ast.parse(text, mode="eval").body, text))
    except ZeroDivisionError:
        raise ExpressionError("division by zero") from None
    except (SyntaxError, MemoryError, RecursionError):
        raise ExpressionError(NO_ARITHMETIC) from None


def _value(node: ast.expr, text: str) -> Fraction:
    if isinstance(node, ast.Constant):
        return _bounded(_number(text[node.col_offset : node.end_col_offset]))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return _value(node.operand, text) * (-1 if isinstance(node.op, ast.USub) else 1)
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, text), _value(node.right, text)
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        if type(node.op) in OPERATIONS:
            return _bounded(Fraction(OPERATIONS[type(node.op)](left, right)))
    raise ExpressionError(NO_ARITHMETIC)


def _number(literal: str) -> Fraction:
    try:
        return Fraction(literal.rstrip("."))
    except ValueError:
        raise ExpressionError(NO_ARITHMETIC) from None


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ExpressionError("the exponent of a power must be a whole number")
    size, count = max(abs(base.numerator), base.denominator).bit_length(), abs(exponent.numerator)
    if abs(base) == 1:
        return base ** (count % 2)
    if base != 0 and (count > EXPONENT or (size - 1) * count > BITS):
        raise ExpressionError(TOO_LARGE)
    return base if base == 0 and exponent > 0 else _bounded(Fraction(base**exponent.numerator))


def _bounded(value: Fraction) -> Fraction:
    if max(abs(value.numerator), value.denominator).bit_length() > BITS:
        raise ExpressionError(TOO_LARGE)
    return value


def _told(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    if 10**DIGITS % value.denominator == 0:
        return f"{Decimal(value.numerator) / Decimal(value.denominator):f}"
    context = Context(prec=DIGITS)
    rounded = context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(context)
    return f"{rounded:f}" if -DIGITS <= rounded.adjusted() <= DIGITS else f"{rounded:e}"
