"""Broken: an episode sets an environment variable and leaves it so.

Told: which one is another afterwards.
"""

import os

from tests.recipes.worlds.broken_worlds import lamps


class Setting(lamps.LampsEnvironment):
    def fresh(self, task, seed):
        os.environ["LAMPS_TASK"] = task.task_id
        return super().fresh(task, seed)


def load():
    return lamps.with_environment(Setting())
