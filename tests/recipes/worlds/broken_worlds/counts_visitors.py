"""Broken: a number of the module counts episodes, and is told.

Told: that a later episode differs from an earlier equal one.
"""

from rollwright.record import Message
from tests.recipes.worlds.broken_worlds import lamps

visitors = [0]


class Counted(lamps.LampsEpisode):
    def opening(self):
        visitors[0] += 1
        return (Message(role="user", text=f"Visitor {visitors[0]}! {super().opening()[0].text}"),)


def load():
    return lamps.with_episode(Counted)
