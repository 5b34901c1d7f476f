"""A simulator of a toy language of gates, for tests: lines `output = expression` over `&`, `|`, `^`, `~`, `+`.

It stands in for a simulator of hardware, which is not to be had here. `print` is a line of the language, since real
designs can print as well.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rollwright.verifiers import DesignError, Interface, SimulatorError

__all__ = ["ToySimulator"]

_BINARY: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
}


@dataclass(frozen=True)
class ToySimulator:
    """Evaluates a design for every vector."""

    is_broken: bool = False
    revision: str = "toy-1"

    async def run(
        self, design: str, interface: Interface, vectors: Sequence[Mapping[str, int]]
    ) -> Sequence[Mapping[str, int]]:
        if self.is_broken:
            raise SimulatorError("no license")
        lines = [line.strip() for line in design.strip().splitlines() if line.strip()]
        if "loop" in lines:
            raise DesignError("it does not end", kind="timeout")
        return [_outputs(lines, interface, vector) for vector in vectors]


def _outputs(lines: Sequence[str], interface: Interface, vector: Mapping[str, int]) -> Mapping[str, int]:
    signals = dict(vector)
    for line in lines:
        if line.startswith("print"):
            continue
        name, _, expression = line.partition("=")
        try:
            signals[name.strip()] = _value(ast.parse(expression.strip(), mode="eval").body, signals)
        except (SyntaxError, KeyError, RecursionError) as error:
            raise DesignError(f"{line[:60]!r}: {error}") from error
    return {port.name: signals[port.name] % 2**port.width for port in interface.outputs if port.name in signals}


def _value(node: ast.expr, signals: Mapping[str, int]) -> int:
    match node:
        case ast.Name(id=name):
            return signals[name]
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ~_value(operand, signals)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, signals), _value(right, signals))
        case _:
            raise SyntaxError("no gate")
