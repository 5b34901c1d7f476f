"""Broken: the tasks come from a `hash`.

Told: that another process has other tasks.
"""

from dataclasses import replace

from tests.recipes.worlds.broken_worlds import lamps


def tasks(sizes, seed):
    return lamps.tasks(sizes, hash(f"lamps {seed}"))


def load():
    return replace(lamps.load(), tasks=tasks)
