"""Broken: a turn calls sys.exit.

Told: that it raised SystemExit.
"""

import sys

from tests.recipes.worlds.broken_worlds import lamps


class Exiting(lamps.LampsEpisode):
    async def step(self, action):
        sys.exit(0)


def load():
    return lamps.with_episode(Exiting)
