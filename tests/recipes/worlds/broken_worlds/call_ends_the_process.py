"""Broken: a call ends the process with code 0.

Told: that the process ended, and in what.
"""

import os

from tests.recipes.worlds.broken_worlds import lamps


class Ending(lamps.LampsEpisode):
    def look(self):
        os._exit(0)


def load():
    return lamps.with_episode(Ending)
