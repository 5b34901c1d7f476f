"""Broken: each episode starts a thread that waits for ever.

Told: that a thread stays.
"""

import threading
from contextlib import asynccontextmanager

from tests.recipes.worlds.broken_worlds import lamps


class Starting(lamps.LampsEnvironment):
    @asynccontextmanager
    async def opened(self, task, seed, snapshot):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        yield self.made(task, seed, snapshot)


def load():
    return lamps.with_environment(Starting())
