"""Broken: one look is a thousand characters, 120 are declared.

Told: how many came and how many are declared.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Long(lamps.LampsEpisode):
    def look(self):
        return f"the lamps are {self.state.lit} " + "x" * 1000


def load():
    return lamps.with_episode(Long)
