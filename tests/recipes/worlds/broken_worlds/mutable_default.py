"""Broken: a default argument counts the calls of all episodes, so late ones have none left.

Told: again, or a reference that fails late.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Defaulted(lamps.LampsEpisode):
    def __init__(self, state, target, calls=[]):  # noqa: B006 - the fault
        super().__init__(state, target)
        self.all_calls = calls

    def answer(self, request):
        self.all_calls.append(request.tool)
        if len(self.all_calls) > 60:
            return "limit", "error: no calls left"
        return super().answer(request)


def load():
    return lamps.with_episode(Defaulted)
