"""Broken: calls are answered with status `fine`.

Told: that this is none of the statuses there are.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Fine(lamps.LampsEpisode):
    def answer(self, request):
        status, text = super().answer(request)
        return "fine" if status == "ok" else status, text


def load():
    return lamps.with_episode(Fine)
