"""Broken: only the first seven solutions are paid.

Told: that a verdict depends on which were graded before.
"""

from dataclasses import replace

from rollwright.verifiers import FunctionVerifier, Grade
from tests.recipes.worlds.broken_worlds import lamps

paid = []


def grade(submission):
    graded = lamps.grade(submission)
    paid.extend([1] * int(graded.value))
    return graded if len(paid) <= 7 else Grade(value=0.0, evidence="nothing left")


def load():
    return replace(lamps.load(), parts=lamps.graded(FunctionVerifier(name="lamps", revision="1", grade=grade)))
