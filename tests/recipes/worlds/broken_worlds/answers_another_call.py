"""Broken: the result of a call bears the id of another.

Told: that the id is not the one that was asked.
"""

from dataclasses import replace

from tests.recipes.worlds.broken_worlds import lamps


class Mixing(lamps.LampsEpisode):
    async def call(self, request):
        return replace(await super().call(request), call_id="c99")


def load():
    return lamps.with_episode(Mixing)
