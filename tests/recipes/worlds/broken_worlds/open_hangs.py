"""Broken: entering an episode never ends.

Told: that opening gave no answer within the limit.
"""

import asyncio
from contextlib import asynccontextmanager

from tests.recipes.worlds.broken_worlds import lamps


class Hanging(lamps.LampsEnvironment):
    @asynccontextmanager
    async def opened(self, task, seed, snapshot):
        await asyncio.Event().wait()
        yield self.made(task, seed, snapshot)


def load():
    return lamps.with_environment(Hanging())
