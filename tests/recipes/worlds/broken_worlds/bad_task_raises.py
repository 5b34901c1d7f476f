"""Broken: a task that cannot be read raises ValueError.

Told: EnvironmentBrokenError.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Raw(lamps.LampsEnvironment):
    def made(self, task, seed, snapshot):
        target = lamps.target_of(task)
        return self.episode(self.fresh(task, seed) if snapshot is None else self.restored(snapshot, task, seed), target)


def load():
    return lamps.with_environment(Raw())
