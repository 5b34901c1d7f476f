"""Broken: whoever touches nothing is paid.

Told: that the null agent is paid.
"""

from rollwright.record import canonical_json
from tests.recipes.worlds.broken_worlds import lamps


class Untouched(lamps.LampsEpisode):
    async def artifacts(self):
        left = self.state.lit if self.state.calls else self.target
        return {"lamps.json": canonical_json({"lit": left}).encode()}


def load():
    return lamps.with_episode(Untouched)
