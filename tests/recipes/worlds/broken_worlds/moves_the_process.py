"""Broken: an episode changes the working folder and leaves it so.

Told: that the folder is another one afterwards.
"""

import os

from tests.recipes.worlds.broken_worlds import lamps


class Moving(lamps.LampsEnvironment):
    def fresh(self, task, seed):
        os.chdir("/")
        return super().fresh(task, seed)


def load():
    return lamps.with_environment(Moving())
