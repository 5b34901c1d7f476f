"""Broken: what it leaves for verifiers holds the time.

Told: that the artifacts of equal episodes differ.
"""

import time

from rollwright.record import canonical_json
from tests.recipes.worlds.broken_worlds import lamps


class Stamped(lamps.LampsEpisode):
    async def artifacts(self):
        left = {"lit": self.state.lit, "at": time.time_ns()}
        return {"lamps.json": canonical_json(left).encode()}


def load():
    return lamps.with_episode(Stamped)
