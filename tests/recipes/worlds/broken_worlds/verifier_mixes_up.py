"""Broken: verdicts come back in another order than submissions.

Told: that a verdict is of another trajectory.
"""

from dataclasses import replace

from rollwright.verifiers import FunctionVerifier
from tests.recipes.worlds.broken_worlds import lamps


class Mixing(FunctionVerifier):
    async def verify(self, submissions):
        return (await super().verify(submissions))[::-1]


def load():
    return replace(lamps.load(), parts=lamps.graded(Mixing(name="lamps", revision="1", grade=lamps.grade)))
