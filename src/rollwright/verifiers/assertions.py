"""Assertions on a call with literal arguments, read from code that is never run."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Literal, cast

__all__ = ["AssertedCall", "AssertionFormError", "read_assertions"]

_MAX_CHARACTERS = 1_000_000
_MAX_NESTING = 60
_MAX_POWER = 1000
_MAX_BITS = 100_000
_MAX_ITEMS = 100_000


class AssertionFormError(ValueError):
    """Test code that says more than that a call of literals returns a literal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertedCall:
    """What one assertion says."""

    name: str
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    expected: object
    check: Literal["equal", "true", "false"] = "equal"
    absolute: float = 0.0


def read_assertions(code: str, entry_point: str) -> list[AssertedCall]:
    """All assertions of test code, in order.

    Read are `assert f(…) == literal` (either way around; `is` of None, True and False), `assert f(…)`,
    `assert not f(…)`, `assert abs(f(…) - number) < number` and `assert math.isclose(f(…), number, abs_tol=number)`,
    at top level or in functions named `check` or `test…`. In `check(candidate)` the parameter stands for the function.

    Args:
        code: of the tests.
        entry_point: the function under test, where it is known: calls of another are refused.

    Raises:
        AssertionFormError: for any other statement, named by its line.
    """
    if len(code) > _MAX_CHARACTERS:
        raise AssertionFormError(f"{len(code)} characters of test code")
    try:
        module = ast.parse(code)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise AssertionFormError(f"the test code cannot be parsed: {error}") from error
    found = [_asserted(one) for statement in _assertions(module.body) for one in _apart(statement)]
    allowed = {entry_point, "candidate"} if entry_point else {call.name for call in found}
    if foreign := [call.name for call in found if call.name not in allowed]:
        raise AssertionFormError(f"an assertion calls {foreign[0]}; the function under test is {entry_point}")
    return found


def _assertions(statements: list[ast.stmt]) -> Iterator[ast.Assert]:
    for statement in statements:
        match statement:
            case ast.Assert():
                yield statement
            case ast.FunctionDef(name=name, body=body) if name == "check" or name.startswith("test"):
                yield from _assertions(body)
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Import() | ast.ImportFrom():
                continue
            case ast.Assign(targets=[ast.Name(id="METADATA")]):
                continue
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name == "check" or name.startswith("test"):
                continue
            case _:
                raise AssertionFormError(f"line {statement.lineno} is no assertion: {_shown(statement)}")


def _apart(statement: ast.Assert) -> list[ast.Assert]:
    """`assert a and b` asserts a, and asserts b."""
    match statement.test:
        case ast.BoolOp(op=ast.And(), values=values):
            return [ast.copy_location(ast.Assert(test=value), statement) for value in values]
        case _:
            return [statement]


def _asserted(statement: ast.Assert) -> AssertedCall:
    if _nesting(statement) > _MAX_NESTING:
        raise AssertionFormError(f"line {statement.lineno} is nested too deeply")
    match statement.test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            call, other = (left, right) if isinstance(left, ast.Call) else (right, left)
            return _call(call, expected=_literal(other))
        case ast.Compare(left=call, ops=[ast.Is()], comparators=[ast.Constant(value=True | False | None as constant)]):
            return _call(call, expected=constant)
        case ast.Compare(left=difference, ops=[ast.Lt() | ast.LtE()], comparators=[bound]):
            return _near(difference, _number(bound))
        case ast.Call(func=ast.Attribute(attr="isclose"), args=[call, other], keywords=keywords):
            named = {keyword.arg: _number(keyword.value) for keyword in keywords}
            bound = named.get("abs_tol", 0.0) + named.get("rel_tol", 1e-9) * abs(_number(other))
            return _call(call, expected=_number(other), absolute=bound)
        case ast.UnaryOp(op=ast.Not(), operand=call):
            return _call(call, expected=False, check="false")
        case test:
            return _call(test, expected=True, check="true")


def _near(difference: ast.expr, bound: float) -> AssertedCall:
    match difference:
        case ast.Call(func=ast.Name(id="abs"), args=[ast.BinOp(left=left, op=ast.Sub(), right=right)]):
            call, other = (left, right) if isinstance(left, ast.Call) else (right, left)
            return _call(call, expected=_number(other), absolute=bound)
        case _:
            raise AssertionFormError(f"line {difference.lineno} is no difference: {_shown(difference)}")


def _call(
    node: ast.expr, *, expected: object, check: Literal["equal", "true", "false"] = "equal", absolute: float = 0.0
) -> AssertedCall:
    match node:
        case ast.Call(func=ast.Name() | ast.Attribute() as function):
            return AssertedCall(
                name=ast.unparse(function).removeprefix("Solution()."),
                args=tuple(_literal(argument) for argument in node.args),
                kwargs={str(keyword.arg): _literal(keyword.value) for keyword in node.keywords},
                expected=expected,
                check=check,
                absolute=absolute,
            )
        case _:
            raise AssertionFormError(f"line {node.lineno} asserts something else than a call: {_shown(node)}")


def _number(node: ast.expr) -> float:
    value = _literal(node)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AssertionFormError(f"line {node.lineno}: {_shown(node)} is no number")
    return value


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return _computed(node)


def _computed(node: ast.expr) -> object:  # noqa: PLR0911 - a return a form
    """What is made of literals in the few ways in which tests write values: 2**10, [0] * 5, float("inf"), set()."""
    try:
        match node:
            case ast.List(elts=items):
                return [_literal(item) for item in items]
            case ast.Tuple(elts=items):
                return tuple(_literal(item) for item in items)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -_number(inner)
            case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))], keywords=[]):
                return float(text)
            case ast.Call(func=ast.Name(id="set" | "frozenset"), args=[], keywords=[]):
                return set[object]()
            case ast.Call(func=ast.Name(id="set" | "frozenset"), args=[inner], keywords=[]):
                return set(cast("Iterable[object]", _literal(inner)))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return cast("int", _literal(left)) + cast("int", _literal(right))
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return _product(_literal(left), _literal(right))
            case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if power <= _MAX_POWER:
                return _power(_number(left), power)
            case _:
                raise ValueError("no literal")
    except (ValueError, TypeError, OverflowError, ZeroDivisionError) as error:
        if isinstance(error, AssertionFormError):
            raise
        raise AssertionFormError(f"line {node.lineno}: {_shown(node)} is no literal") from error


def _power(base: float, exponent: int) -> float:
    if isinstance(base, int) and base.bit_length() * exponent > _MAX_BITS:
        raise ValueError("too large a power")
    return base**exponent


def _product(left: object, right: object) -> object:
    """Of two numbers, or a text or list so many times."""
    times, other = (left, right) if isinstance(left, int) else (right, left)
    size = len(cast("Sized", other)) if isinstance(other, (str, list, tuple)) else None
    if size is not None and (not isinstance(times, int) or times * size > _MAX_ITEMS):
        raise ValueError("too long, or no number of times")
    return cast("int", left) * cast("int", right)


def _nesting(node: ast.AST) -> int:
    deepest, level = 0, [node]
    while level:
        deepest += 1
        level = [child for one in level for child in ast.iter_child_nodes(one)]
    return deepest


def _shown(node: ast.AST) -> str:
    return ast.unparse(node)[:80]
