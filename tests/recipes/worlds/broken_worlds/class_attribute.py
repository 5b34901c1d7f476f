"""Broken: the log of presses is the class's, not the episode's.

Told: that equal episodes differ when played again.
"""

from typing import ClassVar

from tests.recipes.worlds.broken_worlds import lamps


class Logged(lamps.LampsEpisode):
    log: ClassVar[list[str]] = []

    def look(self):
        self.log.append(self.state.lit)
        return f"{len(self.log)} looks: {self.state.lit}"


def load():
    return lamps.with_episode(Logged)
