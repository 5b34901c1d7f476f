"""Broken: a failure is nan.

Told: that the verdict is no finite number.
"""

from dataclasses import replace

from rollwright.verifiers import FunctionVerifier, Grade
from tests.recipes.worlds.broken_worlds import lamps


def grade(submission):
    graded = lamps.grade(submission)
    return graded if graded.value else Grade(value=float("nan"), evidence=graded.evidence)


def load():
    return replace(lamps.load(), parts=lamps.graded(FunctionVerifier(name="lamps", revision="1", grade=grade)))
