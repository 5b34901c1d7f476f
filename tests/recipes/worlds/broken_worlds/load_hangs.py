"""Broken: building never ends.

Told: that it was not built within the limit.
"""

import time

from tests.recipes.worlds.broken_worlds import lamps


def load():
    time.sleep(60)
    return lamps.load()
