"""Broken: the end comes with an open turn.

Told: that an end opens no turn.
"""

from dataclasses import replace

from rollwright.record import Message
from tests.recipes.worlds.broken_worlds import lamps


class Asking(lamps.LampsEpisode):
    async def step(self, action):
        result = await super().step(action)
        if result.end is None:
            return result
        return replace(result, observations=self.open_turn((Message(role="user", text="Bye."),)).observations)


def load():
    return lamps.with_episode(Asking)
