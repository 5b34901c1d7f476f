"""Broken: a verdict is less its batch's mean, though its scope is a trajectory.

Told: that it depends on the others.
"""

from dataclasses import replace

from rollwright.verifiers import FunctionVerifier
from tests.recipes.worlds.broken_worlds import lamps


class Comparing(FunctionVerifier):
    async def verify(self, submissions):
        verdicts = await super().verify(submissions)
        mean = sum(float(verdict.outcome) for verdict in verdicts) / len(verdicts)
        return [replace(verdict, outcome=float(verdict.outcome) - mean + 0.5) for verdict in verdicts]


def load():
    return replace(lamps.load(), parts=lamps.graded(Comparing(name="lamps", revision="1", grade=lamps.grade)))
