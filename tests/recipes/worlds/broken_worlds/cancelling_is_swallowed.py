"""Broken: a call waits, and takes a cancellation for an end of waiting.

Told: that a cancellation was swallowed.
"""

import asyncio
from contextlib import suppress

from tests.recipes.worlds.broken_worlds import lamps


class Deaf(lamps.LampsEpisode):
    async def call(self, request):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
        return await super().call(request)


def load():
    return lamps.with_episode(Deaf)
