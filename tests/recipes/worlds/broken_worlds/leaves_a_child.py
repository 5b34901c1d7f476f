"""Broken: each episode starts a program and leaves it running.

Told: that a process stays.
"""

import subprocess
from contextlib import asynccontextmanager

from tests.recipes.worlds.broken_worlds import lamps


class Starting(lamps.LampsEnvironment):
    @asynccontextmanager
    async def opened(self, task, seed, snapshot):
        subprocess.Popen(["sleep", "20"])  # noqa: ASYNC220 - the fault
        yield self.made(task, seed, snapshot)


def load():
    return lamps.with_environment(Starting())
