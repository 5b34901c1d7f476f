"""Broken: the reference never ends its plan.

Told: that the reference gave no turns within the limit.
"""

import time
from dataclasses import replace

from tests.recipes.worlds.broken_worlds import lamps


def reference(task, seed):
    while True:
        time.sleep(0.05)


def load():
    return replace(lamps.load(), reference=reference)
