"""Exact arithmetic within bounds."""

import ast
import operator
import time
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.tasks import Bounds, ExpressionError, evaluate, number_text

OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
numbers = st.integers(0, 999).map(str) | st.decimals(0, 99, places=2).map(str)
expressions = st.recursive(
    numbers,
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
        lambda parts: f"({parts[0]}{parts[1]}{parts[2]})"
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("42*25", "1050"),
        ("(47-29)*3", "54"),
        ("7/2", "3.5"),
        ("1/3", "0.333333333333"),
        ("-7//2", "-4"),
        ("10%3", "1"),
        ("2**-3", "0.125"),
        ("2^10", "1024"),
        ("0.1+0.2", "0.3"),
        ("12 × 3 ÷ 4 − 1", "8"),
        ("--3", "3"),
        ("1e3*2", "2000"),
        (".5+1.", "1.5"),
        ("1/4-1", "-0.75"),
        ("2/3*1e-20", "6.66666666667e-21"),
    ],
)
def test_values_are_exact(expression: str, text: str) -> None:
    assert number_text(evaluate(expression)) == text


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("1/0", "division by zero"),
        ("5//(3-3)", "division by zero"),
        ("0**-1", "division by zero"),
        ("9**9**9**9", "result too large"),
        ("(-3)**(10**300)", "too large"),
        ("2**0.5", "whole number"),
        ("1e999999999", "out of range"),
        ("", "empty"),
        ("import os", "unexpected"),
        ("__import__('os')", "unexpected"),
        ("abs(3)", "unexpected"),
        ("[1]*9", "unexpected"),
        ("1 2", "not an arithmetic"),
        ("1(2)", "not an arithmetic"),
        ("007", "not an arithmetic"),
        ("e", "not an arithmetic"),
        ("1==1", "unexpected"),
        ("(" * 90 + "1", "not an arithmetic"),
        ("1" * 201, "too long"),
        ("1\n+1", "unexpected"),
    ],
)
def test_everything_else_is_refused_with_a_sentence(expression: str, sentence: str) -> None:
    with pytest.raises(ExpressionError, match=sentence):
        evaluate(expression)


@given(expressions)
def test_agrees_with_python_on_fractions(expression: str) -> None:
    tree = ast.parse(expression, mode="eval")
    try:
        expected = _fold(tree.body, expression)
    except ZeroDivisionError:
        with pytest.raises(ExpressionError):
            evaluate(expression)
        return
    assert evaluate(expression, Bounds(characters=500)) == expected


def _fold(node: ast.expr, text: str) -> Fraction:
    if isinstance(node, ast.BinOp):
        return Fraction(OPERATORS[type(node.op)](_fold(node.left, text), _fold(node.right, text)))
    return Fraction(text[node.col_offset : node.end_col_offset])


@given(st.text(alphabet="0123456789+-*/%().eE^ ×", max_size=200))
def test_any_text_ends_soon_in_a_number_or_a_sentence(text: str) -> None:
    started = time.perf_counter()
    try:
        assert isinstance(evaluate(text), Fraction)
    except ExpressionError as error:
        assert str(error)
    assert time.perf_counter() - started < 1.0


@given(st.text(max_size=60))
def test_foreign_text_never_escapes_as_another_error(text: str) -> None:
    try:
        evaluate(text)
    except ExpressionError as error:
        assert str(error)


@given(st.fractions(max_denominator=10**6))
def test_number_text_reads_back_to_twelve_digits(value: Fraction) -> None:
    back = Fraction(number_text(value))
    assert abs(back - value) <= abs(value) * Fraction(1, 10**11)
    if value.denominator == 1:
        assert back == value
