"""Broken: grading takes longer than the verifier's own deadline.

Told: the deadline and how long it took.
"""

import time
from dataclasses import replace

from rollwright.verifiers import FunctionVerifier
from tests.recipes.worlds.broken_worlds import lamps


def grade(submission):
    time.sleep(0.3)
    return lamps.grade(submission)


def load():
    return replace(
        lamps.load(), parts=lamps.graded(FunctionVerifier(name="lamps", revision="1", grade=grade, deadline_s=0.1))
    )
