"""Broken: the reference presses some lamps twice, by chance.

Told: that equal task and seed give other turns.
"""

import random
from dataclasses import replace

from rollwright.environments import DemonstratedTurn
from tests.recipes.worlds.broken_worlds import lamps


def reference(task, seed):
    again = DemonstratedTurn(text="", calls=(lamps.pressed(random.randrange(lamps.NUM_LAMPS)),) * 2)
    return (again, *lamps.reference(task, seed))


def load():
    return replace(lamps.load(), reference=reference)
