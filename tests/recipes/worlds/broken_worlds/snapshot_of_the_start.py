"""Broken: a snapshot is restored as the start of the episode.

Told: that it does not go on as it would have.
"""

from dataclasses import replace

from tests.recipes.worlds.broken_worlds import lamps


class Restarting(lamps.LampsEnvironment):
    def restored(self, snapshot, task, seed):
        return replace(self.fresh(task, seed), turns=super().restored(snapshot, task, seed).turns)


def load():
    return lamps.with_environment(Restarting())
