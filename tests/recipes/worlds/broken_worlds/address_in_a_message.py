"""Broken: the opening names an object by its address.

Told: that a replay differs in the first observation.
"""

from rollwright.record import Message
from tests.recipes.worlds.broken_worlds import lamps


class Addressed(lamps.LampsEpisode):
    def opening(self):
        return (Message(role="user", text=f"{object()}: {super().opening()[0].text}"),)


def load():
    return lamps.with_episode(Addressed)
