"""A rubric of an agent's actions, its raw parts kept and its reward bounded (Nanbeige 4.2)."""

from dataclasses import dataclass

from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError

__all__ = ["ActionRubric", "rubric_of_actions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRubric:
    """Raw parts of one attempt, each in [0, 1]."""

    tool_accuracy: float
    information_gain: float
    progress: float
    repeated_error: float
    """Share of actions that repeat an error; it is taken off."""

    def __post_init__(self) -> None:
        """Refuse a part that could outweigh the others without bound."""
        for name, value in self.parts().items():
            if not 0 <= value <= 1:
                raise ObjectiveError(f"{name} is {value}; parts of a rubric lie between 0 and 1.")

    def parts(self) -> dict[str, float]:
        """Raw values by name, as they are stored."""
        return {
            "tool_accuracy": self.tool_accuracy,
            "information_gain": self.information_gain,
            "progress": self.progress,
            "repeated_error": self.repeated_error,
        }


def rubric_of_actions(rubric: ActionRubric, *, weight: float | None = None, bound: float) -> float:
    """w·(accuracy + gain + progress − repeated errors)/3, within ±bound.

    Args:
        rubric: raw parts.
        weight: w, which the report does not give; equal weights of the parts are ours.
        bound: below what the outcome pays, so that actions never outweigh it; above 0.

    Returns:
        What is added to the reward of the outcome.
    """
    if bound <= 0:
        raise ObjectiveError(f"bound is {bound}; it is above 0.")
    w = chosen("weight", weight, undisclosed_by="the report on Nanbeige 4.2")
    total = w * (rubric.tool_accuracy + rubric.information_gain + rubric.progress - rubric.repeated_error) / 3.0
    return max(-bound, min(bound, total))
