"""Broken: it has no snapshot and says so by the wrong error.

Told: NotSnapshottableError.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Without(lamps.LampsEpisode):
    async def snapshot(self):
        raise NotImplementedError


def load():
    return lamps.with_episode(Without)
