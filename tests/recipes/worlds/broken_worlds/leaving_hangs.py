"""Broken: leaving an episode never ends.

Told: that leaving took longer than the limit.
"""

import asyncio
from contextlib import asynccontextmanager

from tests.recipes.worlds.broken_worlds import lamps


class Hanging(lamps.LampsEnvironment):
    @asynccontextmanager
    async def opened(self, task, seed, snapshot):
        try:
            yield self.made(task, seed, snapshot)
        finally:
            await asyncio.Event().wait()


def load():
    return lamps.with_environment(Hanging())
