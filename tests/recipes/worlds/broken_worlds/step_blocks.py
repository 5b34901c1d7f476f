"""Broken: a turn sleeps in the event loop.

Told: that it blocks the loop, so that no other episode can go on.
"""

import time

from tests.recipes.worlds.broken_worlds import lamps


class Blocking(lamps.LampsEpisode):
    async def step(self, action):
        time.sleep(60)  # noqa: ASYNC251 - the fault
        return await super().step(action)


def load():
    return lamps.with_episode(Blocking)
