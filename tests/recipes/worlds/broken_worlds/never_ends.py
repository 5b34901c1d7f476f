"""Broken: no turn ends an episode but the word; silence goes on for ever.

Told: that an episode does not end.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Endless(lamps.LampsEpisode):
    async def step(self, action):
        self.state.turns = 0
        return await super().step(action)


def load():
    return lamps.with_episode(Endless)
