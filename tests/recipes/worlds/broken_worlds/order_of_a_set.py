"""Broken: the answer to an unknown tool lists a set, in an order of each process's own.

Told: that this answer differs.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Listing(lamps.LampsEpisode):
    def answer(self, request):
        if request.tool not in lamps.TOOLS:
            known = {"press", "look", "press a lamp", "look at all", "look twice"}
            return "invalid_call", f"error: no such tool; there are {', '.join(known)}"
        return super().answer(request)


def load():
    return lamps.with_episode(Listing)
