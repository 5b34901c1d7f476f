"""Broken: an episode makes the whole process deaf to an interrupt.

Told: which signal is handled in another way afterwards.
"""

import signal

from tests.recipes.worlds.broken_worlds import lamps


class Deaf(lamps.LampsEnvironment):
    def fresh(self, task, seed):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return super().fresh(task, seed)


def load():
    return lamps.with_environment(Deaf())
