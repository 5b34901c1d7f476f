"""Broken: the start comes from `hash` of a text, another one in every process.

Told: another process, another hash seed.
"""

from dataclasses import replace

from tests.recipes.worlds.broken_worlds import lamps


def start_of(task, seed):
    return lamps.start_of(task, hash((task.task_id, seed)))


class Salted(lamps.LampsEnvironment):
    def fresh(self, task, seed):
        return lamps.Lamps(task_id=task.task_id, seed=seed, lit=start_of(task, seed))


def reference(task, seed):
    return lamps.reference(task, hash((task.task_id, seed)))


def load():
    return replace(lamps.with_environment(Salted()), reference=reference)
