"""Checks that a world keeps its promises: run in a process of their own, bounded in time, each with a sentence."""

from rollwright.recipes.worlds.checking.outcomes import CheckOrder, CheckOutcome
from rollwright.recipes.worlds.checking.supervising import check_world

__all__ = ["CheckOrder", "CheckOutcome", "check_world"]
