"""Broken: the folder is removed after the yield, not in a finally.

Told: that a cancelled or failed episode leaves files.
"""

import shutil
import tempfile
from contextlib import asynccontextmanager

from tests.recipes.worlds.broken_worlds import lamps


class Tidying(lamps.LampsEnvironment):
    @asynccontextmanager
    async def opened(self, task, seed, snapshot):
        folder = tempfile.mkdtemp(prefix="lamps-")
        yield self.made(task, seed, snapshot)
        shutil.rmtree(folder)


def load():
    return lamps.with_environment(Tidying())
