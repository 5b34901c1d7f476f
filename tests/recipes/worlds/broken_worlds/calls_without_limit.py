"""Broken: twelve calls are declared, any number is answered.

Told: that the limit of calls does not hold.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Unlimited(lamps.LampsEpisode):
    def answer(self, request):
        self.state.calls = 1
        return super().answer(request)


def load():
    return lamps.with_episode(Unlimited)
