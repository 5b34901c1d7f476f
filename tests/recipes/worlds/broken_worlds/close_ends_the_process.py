"""Broken: closing the world ends the process with code 0.

Told: that closing ended the process.
"""

import os
from dataclasses import replace

from tests.recipes.worlds.broken_worlds import lamps


def load():
    return replace(lamps.load(), close=lambda: os._exit(0))
