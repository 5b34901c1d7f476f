"""What becomes of a group in which attempts failed for good (M111).

Groups are never merged: not those of two tasks, nor two temperatures. What is missing has no reward.
"""

from typing import Literal

from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError

__all__ = ["Fate", "IncompleteRule", "fate_of_group"]

IncompleteRule = Literal["wait", "train", "drop", "pad"]
"""Wait for retries; train the survivors on their own baseline; the same, but drop a group that lost too many; or fill
its empty places with rows of advantage 0 where few are missing, and drop it where many are (GLM-5)."""

Fate = Literal["wait", "train", "drop", "pad"]


def fate_of_group(rule: IncompleteRule, *, survivors: int, group_size: int, min_fraction: float | None = None) -> Fate:
    """What is done with a group of which some attempts ended.

    Args:
        rule: of the run.
        survivors: attempts that ended and can be trained.
        group_size: G.
        min_fraction: of G, for `drop` and `pad`; that many survivors are enough (E6).

    Returns:
        `train` for a whole group under every rule, `drop` for one without a survivor under all but `wait`. A single
        survivor is trained with advantage 0: it has no baseline (E1).
    """
    if not 0 <= survivors <= group_size or group_size < 1:
        raise ObjectiveError(f"{survivors} survivors of a group of {group_size}; they are at most the group.")
    if survivors == group_size:
        return "train"
    if rule == "wait" or rule == "train":
        return rule if rule == "wait" or survivors else "drop"
    enough = chosen("min_fraction", min_fraction, undisclosed_by="GLM-5") * group_size
    if survivors < max(enough, 1):
        return "drop"
    return "pad" if rule == "pad" else "train"
