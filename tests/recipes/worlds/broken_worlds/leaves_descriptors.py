"""Broken: each episode opens a descriptor and never closes it.

Told: that descriptors stay open.
"""

import os
from contextlib import asynccontextmanager

from tests.recipes.worlds.broken_worlds import lamps


class Opening(lamps.LampsEnvironment):
    @asynccontextmanager
    async def opened(self, task, seed, snapshot):
        os.open(os.devnull, os.O_RDONLY)
        yield self.made(task, seed, snapshot)


def load():
    return lamps.with_environment(Opening())
