"""Broken: the last submission gets no verdict.

Told: how many came for how many.
"""

from dataclasses import replace

from rollwright.verifiers import FunctionVerifier
from tests.recipes.worlds.broken_worlds import lamps


class Dropping(FunctionVerifier):
    async def verify(self, submissions):
        return (await super().verify(submissions))[:-1]


def load():
    return replace(lamps.load(), parts=lamps.graded(Dropping(name="lamps", revision="1", grade=lamps.grade)))
