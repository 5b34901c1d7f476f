"""Broken: how the lamps stand at first is drawn without the seed.

Told: that equal seeds gave different openings.
"""

import random

from tests.recipes.worlds.broken_worlds import lamps


class Unseeded(lamps.LampsEnvironment):
    def fresh(self, task, seed):
        return lamps.Lamps(task_id=task.task_id, seed=seed, lit=lamps.start_of(task, random.getrandbits(32)))


def load():
    return lamps.with_environment(Unseeded())
