"""Broken: one look is ten million characters, and no limit is declared.

Told: how much came.
"""

from tests.recipes.worlds.broken_worlds import lamps


class Flooding(lamps.LampsEpisode):
    def look(self):
        return f"the lamps are {self.state.lit} " + "x" * 10_000_000


class Undeclared:
    """Without `limits`."""

    def __init__(self):
        self.kind = lamps.LampsEnvironment()
        self.kind.episode = Flooding
        self.name, self.revision, self.actors = self.kind.name, self.kind.revision, self.kind.actors

    def open(self, task, *, seed, snapshot=None):
        return self.kind.open(task, seed=seed, snapshot=snapshot)


def load():
    return lamps.with_environment(Undeclared())
