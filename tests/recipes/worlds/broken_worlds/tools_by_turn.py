"""Broken: a tool goes away after the first turn.

Told: that the tools of an episode changed.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Varying(lamps.LampsEpisode):
    @property
    def tools(self):
        return lamps.TOOLS if self.state.turns == 0 else {"press": lamps.TOOLS["press"]}


def load():
    return lamps.with_episode(Varying)
