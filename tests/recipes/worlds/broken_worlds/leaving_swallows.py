"""Broken: an error inside an episode is swallowed when it is left.

Told: that an error does not pass through.
"""

from contextlib import asynccontextmanager, suppress

from tests.recipes.worlds.broken_worlds import lamps


class Swallowing(lamps.LampsEnvironment):
    @asynccontextmanager
    async def opened(self, task, seed, snapshot):
        with suppress(Exception):
            yield self.made(task, seed, snapshot)


def load():
    return lamps.with_environment(Swallowing())
