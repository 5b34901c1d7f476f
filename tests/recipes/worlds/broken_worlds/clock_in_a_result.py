"""Broken: `look` tells the nanosecond.

Told: that a replay differs, in the text of which turn or call.
"""

import time

from tests.recipes.worlds.broken_worlds import lamps


class Clocked(lamps.LampsEpisode):
    def look(self):
        return f"at {time.perf_counter_ns()} the lamps are {self.state.lit}"


def load():
    return lamps.with_episode(Clocked)
