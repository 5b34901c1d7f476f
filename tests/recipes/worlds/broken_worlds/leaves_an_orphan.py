"""Broken: each episode starts a daemon in a session of its own, whose parent is gone.

Told: that a process stays.
"""

import subprocess
from contextlib import asynccontextmanager

from tests.recipes.worlds.broken_worlds import lamps


class Starting(lamps.LampsEnvironment):
    @asynccontextmanager
    async def opened(self, task, seed, snapshot):
        subprocess.run(["sh", "-c", "setsid sleep 20 >/dev/null 2>&1 </dev/null &"], check=True)  # noqa: ASYNC221 - the fault
        yield self.made(task, seed, snapshot)


def load():
    return lamps.with_environment(Starting())
