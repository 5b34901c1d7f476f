"""Broken: the opening names an object by its address.

Told: that a replay differs in the first observation.
"""

from rollwright.record import Message
from tests.recipes.worlds.broken_worlds import lamps

KEPT: list[object] = []
"""No address is given to a second object while the first one lives."""


class Addressed(lamps.LampsEpisode):
    def opening(self):
        KEPT.append(object())
        return (Message(role="user", text=f"{KEPT[-1]}: {super().opening()[0].text}"),)


def load():
    return lamps.with_episode(Addressed)
