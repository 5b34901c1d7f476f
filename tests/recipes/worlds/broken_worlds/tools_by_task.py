"""Broken: every other task has a tool more.

Told: that tools are not the same in every episode.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Varying(lamps.LampsEpisode):
    @property
    def tools(self):
        more = {"hint": lamps.schema("hint", "Say what is wrong.", {})}
        return {**lamps.TOOLS, **(more if self.target.count("1") % 2 else {})}


def load():
    return lamps.with_episode(Varying)
