"""Broken: arguments that are no JSON raise.

Told: that a bad call is to be answered, not raised.
"""

import json

from tests.recipes.worlds.broken_worlds import lamps


class Raising(lamps.LampsEpisode):
    def read(self, arguments):
        return json.loads(arguments)


def load():
    return lamps.with_episode(Raising)
