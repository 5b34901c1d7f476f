"""Broken: a turn after the end is taken as if there were none.

Told: that a step after the end was taken.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Undying(lamps.LampsEpisode):
    async def step(self, action):
        self.state.has_ended = False
        return await super().step(action)


def load():
    return lamps.with_episode(Undying)
