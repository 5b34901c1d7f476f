"""Broken: the name counts how often it is asked.

Told: that the name is not the same.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Renamed(lamps.LampsEnvironment):
    asked = 0

    @property
    def name(self):
        self.asked += 1
        return f"lamps {self.asked}"


def load():
    return lamps.with_environment(Renamed())
