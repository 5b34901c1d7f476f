"""Broken: the state hash is of the object, not of what it holds.

Told: that equal states have different hashes.
"""

import time

from rollwright.record import digest
from tests.recipes.worlds.broken_worlds import lamps


class Identity(lamps.LampsEpisode):
    def state_hash(self):
        return digest([id(self), time.perf_counter_ns()])


def load():
    return lamps.with_episode(Identity)
