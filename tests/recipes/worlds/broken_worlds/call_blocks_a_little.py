"""Broken: each call keeps the event loop for seven tenths of a second, well within its limit.

Told: that the loop was blocked.
"""

import time

from tests.recipes.worlds.broken_worlds import lamps


class Blocking(lamps.LampsEpisode):
    async def call(self, request):
        time.sleep(0.7)  # noqa: ASYNC251 - the fault
        return await super().call(request)


def load():
    return lamps.with_episode(Blocking)
