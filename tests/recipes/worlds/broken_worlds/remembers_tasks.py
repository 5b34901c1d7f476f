"""Broken: the state of a task is kept, and its next episode goes on from there.

Told: that a second episode of a task differs.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Remembering(lamps.LampsEnvironment):
    def __init__(self):
        self.known = {}

    def fresh(self, task, seed):
        return self.known.setdefault((task.task_id, seed), super().fresh(task, seed))


def load():
    return lamps.with_environment(Remembering())
