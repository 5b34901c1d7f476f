"""Broken: each build has a revision of its own.

Told: that two builds have different revisions.
"""

import uuid

from tests.recipes.worlds.broken_worlds import lamps


class Versioned(lamps.LampsEnvironment):
    def __init__(self):
        self.built = uuid.uuid4().hex

    @property
    def revision(self):
        return self.built


def load():
    return lamps.with_environment(Versioned())
