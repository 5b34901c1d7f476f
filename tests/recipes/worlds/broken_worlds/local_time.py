"""Broken: the opening tells the hour of the machine's time zone.

Told: that another time zone changes an observation.
"""

import datetime

from rollwright.record import Message
from tests.recipes.worlds.broken_worlds import lamps


class Local(lamps.LampsEpisode):
    def opening(self):
        hour = datetime.datetime.now().astimezone().strftime("%z")
        return (Message(role="user", text=f"{super().opening()[0].text} It is {hour}."),)


def load():
    return lamps.with_episode(Local)
