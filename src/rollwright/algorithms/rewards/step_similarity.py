"""How much a step says what the expert's step says: a dense reward where every answer is wrong (SRL)."""

from collections.abc import Sequence
from difflib import SequenceMatcher

__all__ = ["step_similarities", "step_similarity"]


def step_similarity(given: str | Sequence[int], expert: str | Sequence[int]) -> float:
    """2·matching/(both lengths) over longest common blocks, in [0, 1] (arXiv:2510.25992).

    Args:
        given: characters or token ids of the policy's step.
        expert: those of the expert's step; two empty steps are equal.
    """
    return SequenceMatcher(None, given, expert, autojunk=False).ratio()


def step_similarities(given: Sequence[str], expert: Sequence[str]) -> tuple[float, ...]:
    """One reward for each step of the policy, against the expert's step of the same number; 0 beyond its last."""
    paired = tuple(step_similarity(one, other) for one, other in zip(given, expert, strict=False))
    return paired + (0.0,) * (len(given) - len(paired))
