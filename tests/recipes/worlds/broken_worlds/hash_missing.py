"""Broken: later observations have no state hash.

Told: which observation has none.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Missing(lamps.LampsEpisode):
    def state_hash(self):
        return None if self.state.turns else super().state_hash()


def load():
    return lamps.with_episode(Missing)
