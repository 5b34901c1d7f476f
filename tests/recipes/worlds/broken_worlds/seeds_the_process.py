"""Broken: opening an episode seeds the chance of the whole process.

Told: that it changes what others draw.
"""

import random

from tests.recipes.worlds.broken_worlds import lamps


class Seeding(lamps.LampsEnvironment):
    def fresh(self, task, seed):
        random.seed(0)
        return super().fresh(task, seed)


def load():
    return lamps.with_environment(Seeding())
