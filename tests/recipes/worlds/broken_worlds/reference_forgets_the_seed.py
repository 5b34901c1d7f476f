"""Broken: the reference plans for seed 0 whatever the seed.

Told: the seed with which it does not solve the task.
"""

from dataclasses import replace

from tests.recipes.worlds.broken_worlds import lamps


def reference(task, seed):
    return lamps.reference(task, 0)


def load():
    return replace(lamps.load(), reference=reference)
