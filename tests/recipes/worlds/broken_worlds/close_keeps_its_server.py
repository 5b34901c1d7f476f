"""Broken: the world starts a server when it is built, and its close does nothing.

Told: that closing leaves a process.
"""

import subprocess

from tests.recipes.worlds.broken_worlds import lamps


def load():
    subprocess.Popen(["sleep", "20"])
    return lamps.load()
