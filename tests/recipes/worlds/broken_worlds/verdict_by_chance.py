"""Broken: the verdict has noise.

Told: that one submission was given two verdicts.
"""

import random
from dataclasses import replace

from rollwright.verifiers import FunctionVerifier, Grade
from tests.recipes.worlds.broken_worlds import lamps


def grade(submission):
    graded = lamps.grade(submission)
    return Grade(value=graded.value + 1e-3 * random.random(), evidence=graded.evidence)


def load():
    return replace(lamps.load(), parts=lamps.graded(FunctionVerifier(name="lamps", revision="1", grade=grade)))
