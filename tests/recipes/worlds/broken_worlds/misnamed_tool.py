"""Broken: the schema of `press` calls it `push`.

Told: that name and schema of a tool do not agree.
"""

from tests.recipes.worlds.broken_worlds import lamps

TOOLS = {**lamps.TOOLS, "press": lamps.TOOLS["press"].replace('"press"', '"push"')}


class Named(lamps.LampsEpisode):
    @property
    def tools(self):
        return TOOLS


def load():
    return lamps.with_episode(Named)
