"""Broken: leaving an episode raises.

Told: what it raised on leaving.
"""

from contextlib import asynccontextmanager

from tests.recipes.worlds.broken_worlds import lamps


class Raising(lamps.LampsEnvironment):
    @asynccontextmanager
    async def opened(self, task, seed, snapshot):
        try:
            yield self.made(task, seed, snapshot)
        finally:
            raise RuntimeError("the lamps are stuck")


def load():
    return lamps.with_environment(Raising())
