"""Broken: a parameter's type is no type of JSON schema.

Told: which tool's schema is invalid.
"""

from tests.recipes.worlds.broken_worlds import lamps

TOOLS = {**lamps.TOOLS, "press": lamps.TOOLS["press"].replace("integer", "whole number")}


class Typed(lamps.LampsEpisode):
    @property
    def tools(self):
        return TOOLS


def load():
    return lamps.with_episode(Typed)
