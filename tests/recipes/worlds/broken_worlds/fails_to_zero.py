"""Broken: a task that cannot be read is a zero for the policy.

Told: that an error is never a number.
"""

from dataclasses import replace

from rollwright.verifiers import FunctionVerifier, Grade
from tests.recipes.worlds.broken_worlds import lamps


def grade(submission):
    try:
        return lamps.grade(submission)
    except Exception:  # noqa: BLE001 - the fault
        return Grade(value=0.0, evidence="could not be graded")


def load():
    return replace(lamps.load(), parts=lamps.graded(FunctionVerifier(name="lamps", revision="1", grade=grade)))
