"""Broken: one look is ten million characters, 120 are declared.

Told: how much came and what is allowed.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Flooding(lamps.LampsEpisode):
    def look(self):
        return f"the lamps are {self.state.lit} " + "x" * 10_000_000


def load():
    return lamps.with_episode(Flooding)
