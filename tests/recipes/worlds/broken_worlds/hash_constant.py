"""Broken: the state hash never changes.

Told: that different states have one hash.
"""

from rollwright.record import digest
from tests.recipes.worlds.broken_worlds import lamps


class Constant(lamps.LampsEpisode):
    def state_hash(self):
        return digest("lamps")


def load():
    return lamps.with_episode(Constant)
