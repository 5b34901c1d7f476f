"""Worlds that ship, by name, and the form of those that do not."""

from rollwright.recipes.worlds.table import WORLDS, load_world
from rollwright.recipes.worlds.world import World, WorldTasksFn, null_agent

__all__ = ["WORLDS", "World", "WorldTasksFn", "load_world", "null_agent"]
