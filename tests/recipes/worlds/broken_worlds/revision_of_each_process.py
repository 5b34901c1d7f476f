"""Broken: the revision is a `hash`, another one in every process.

Told: that another process has another revision.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Versioned(lamps.LampsEnvironment):
    @property
    def revision(self):
        return str(hash("lamps"))


def load():
    return lamps.with_environment(Versioned())
