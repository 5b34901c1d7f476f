"""Broken: the opening pays, before any turn.

Told: that a reward came before any turn.
"""

from dataclasses import replace

from rollwright.record import NamedValue
from tests.recipes.worlds.broken_worlds import lamps


class Paying(lamps.LampsEpisode):
    async def begin(self):
        return replace(await super().begin(), rewards=(NamedValue(name="welcome", value=0.5),))


def load():
    return lamps.with_episode(Paying)
