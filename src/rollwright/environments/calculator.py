"""The calculator: exact arithmetic on a bounded grammar, with errors that a policy can read."""

from rollwright.environments.errors import ToolError
from rollwright.environments.tools import Tool, tool_of
from rollwright.tasks import EXPRESSIONS_REVISION, Bounds, ExpressionError, evaluate, number_text

__all__ = ["calculator", "calculator_tool"]


def calculator(expression: str) -> str:
    """Work out an arithmetic expression.

    Args:
        expression: numbers, + - * / // % ** and parentheses, such as 12*(3+4)
    """
    try:
        return number_text(evaluate(expression))
    except ExpressionError as error:
        raise ToolError(str(error)) from None


def calculator_tool() -> Tool:
    """The calculator as a tool; its revision covers the bounds."""
    bounds = Bounds()
    settings = {
        "grammar": EXPRESSIONS_REVISION,
        "characters": bounds.characters,
        "bits": bounds.bits,
        "exponent": bounds.exponent,
    }
    return tool_of(calculator, settings=settings, is_quick=True)
