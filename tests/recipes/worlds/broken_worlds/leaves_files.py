"""Broken: each episode makes a temporary folder and leaves it.

Told: that files stay, and where.
"""

import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

from tests.recipes.worlds.broken_worlds import lamps


class Writing(lamps.LampsEnvironment):
    @asynccontextmanager
    async def opened(self, task, seed, snapshot):
        (Path(tempfile.mkdtemp(prefix="lamps-")) / "state.txt").write_text(task.task_id)
        yield self.made(task, seed, snapshot)


def load():
    return lamps.with_environment(Writing())
