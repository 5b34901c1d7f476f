"""Broken: the reference solves no held-out task.

Told: which task it does not solve, and what it earned.
"""

from dataclasses import replace

from tests.recipes.worlds.broken_worlds import lamps


def reference(task, seed):
    return lamps.reference(task, seed) if task.split == "train" else lamps.claim(task, seed)


def load():
    return replace(lamps.load(), reference=reference)
