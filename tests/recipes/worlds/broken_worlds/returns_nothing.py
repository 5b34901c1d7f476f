"""Broken: the callable returns no world.

Told: what it returned.
"""

from tests.recipes.worlds.broken_worlds import lamps


def load():
    assert lamps.load()
