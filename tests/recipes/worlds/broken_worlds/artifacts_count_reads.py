"""Broken: what it leaves for verifiers changes when it is read.

Told: that the artifacts of one episode differ at a second read.
"""

from rollwright.record import canonical_json
from tests.recipes.worlds.broken_worlds import lamps


class Counting(lamps.LampsEpisode):
    reads = 0

    async def artifacts(self):
        self.reads += 1
        return {"lamps.json": canonical_json({"lit": self.state.lit, "reads": self.reads}).encode()}


def load():
    return lamps.with_episode(Counting)
