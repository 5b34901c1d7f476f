"""Broken: building calls sys.exit(0).

Told: that it cannot be built.
"""

import sys

from tests.recipes.worlds.broken_worlds import lamps


def load():
    sys.exit(0)
    return lamps.load()
