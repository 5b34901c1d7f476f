"""How near the tool calls of a turn are to those that were expected: names, arguments, outcome (ToolRL)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["CallShape", "ToolCallScore", "score_tool_calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShape:
    """A call as it was parsed."""

    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallScore:
    """Raw parts, each in [0, 1]."""

    name: float
    """Names in common over names in either."""
    argument: float
    """Arguments of equal name and value over argument names in either, on average over the expected calls."""
    outcome: float
    """What the result of the calls was worth, as a verifier said."""

    def __post_init__(self) -> None:
        """Refuse parts that are none."""
        parts = (self.name, self.argument, self.outcome)
        if not all(0 <= part <= 1 for part in parts):
            raise ObjectiveError(f"parts are {parts}; each lies between 0 and 1.")

    def total(self, weights: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> float:
        """Weighted sum of name, argument and outcome; the parts stay."""
        return weights[0] * self.name + weights[1] * self.argument + weights[2] * self.outcome


def score_tool_calls(given: Sequence[CallShape], expected: Sequence[CallShape], *, outcome: float) -> ToolCallScore:
    """Score the calls of a turn (after arXiv:2504.13958, parts in [0, 1]).

    Args:
        given: calls of the policy, in order.
        expected: calls of the reference.
        outcome: of their results, in [0, 1].

    Returns:
        Parts; each expected call is compared with the unused call of its name that fits best. No call where none was
        expected scores 1 in name and argument.
    """
    names, wanted = {call.name for call in given}, {call.name for call in expected}
    if not wanted:
        return ToolCallScore(name=float(not names), argument=float(not names), outcome=outcome)
    unused = list(given)
    found: list[float] = []
    for call in expected:
        same = [other for other in unused if other.name == call.name]
        best = max(same, key=lambda other: _fit(other, call), default=None)
        if best is not None:
            unused.remove(best)
        found.append(0.0 if best is None else _fit(best, call))
    return ToolCallScore(
        name=len(names & wanted) / len(names | wanted), argument=sum(found) / len(expected), outcome=outcome
    )


def _fit(given: CallShape, expected: CallShape) -> float:
    keys = given.arguments.keys() | expected.arguments.keys()
    missing = object()
    equal = sum(given.arguments.get(k, missing) == expected.arguments.get(k, missing) for k in keys)
    return equal / len(keys) if keys else 1.0
