"""Broken: the state lies in one file of a fixed name. Sound alone.

Told: that episodes played together differ.
"""

import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

from tests.recipes.worlds.broken_worlds import lamps

FILE = Path(tempfile.gettempdir()) / "lamps-of-all-episodes.txt"


class Filed(lamps.LampsEpisode):
    def answer(self, request):
        self.state.lit = FILE.read_text()
        answered = super().answer(request)
        FILE.write_text(self.state.lit)
        return answered


class Filing(lamps.LampsEnvironment):
    episode = Filed

    @asynccontextmanager
    async def opened(self, task, seed, snapshot):
        episode = self.made(task, seed, snapshot)
        FILE.write_text(episode.state.lit)
        try:
            yield episode
        finally:
            FILE.unlink(missing_ok=True)


def load():
    return lamps.with_environment(Filing())
