"""Broken: the policy's bad arguments break the environment.

Told: that a bad call is an answer, not the environment's fault.
"""

from rollwright.record import EnvironmentBrokenError
from tests.recipes.worlds.broken_worlds import lamps


class Blaming(lamps.LampsEpisode):
    def answer(self, request):
        status, text = super().answer(request)
        if status == "invalid_call":
            raise EnvironmentBrokenError(text)
        return status, text


def load():
    return lamps.with_episode(Blaming)
