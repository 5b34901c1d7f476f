"""Broken: a snapshot forgets how many calls were made.

Told: that more calls are allowed after it than before.
"""

from dataclasses import replace

from tests.recipes.worlds.broken_worlds import lamps


class Forgetting(lamps.LampsEnvironment):
    def restored(self, snapshot, task, seed):
        return replace(super().restored(snapshot, task, seed), calls=0)


def load():
    return lamps.with_environment(Forgetting())
