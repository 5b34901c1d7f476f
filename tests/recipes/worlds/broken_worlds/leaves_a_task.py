"""Broken: each episode starts a task of asyncio that nobody cancels.

Told: that a task stays.
"""

import asyncio
from contextlib import asynccontextmanager

from tests.recipes.worlds.broken_worlds import lamps

running = set()


class Starting(lamps.LampsEnvironment):
    @asynccontextmanager
    async def opened(self, task, seed, snapshot):
        running.add(asyncio.create_task(asyncio.sleep(3600)))
        yield self.made(task, seed, snapshot)


def load():
    return lamps.with_environment(Starting())
