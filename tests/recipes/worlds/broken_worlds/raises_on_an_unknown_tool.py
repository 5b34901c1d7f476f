"""Broken: a tool that is not there raises KeyError.

Told: that an unknown tool is to be answered.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Raising(lamps.LampsEpisode):
    def answer(self, request):
        assert lamps.TOOLS[request.tool]
        return super().answer(request)


def load():
    return lamps.with_episode(Raising)
