"""Broken: a turn after calls is never answered.

Told: that a step gave no answer within the limit.
"""

import asyncio

from tests.recipes.worlds.broken_worlds import lamps


class Hanging(lamps.LampsEpisode):
    async def step(self, action):
        if action.calls:
            await asyncio.Event().wait()
        return await super().step(action)


def load():
    return lamps.with_episode(Hanging)
