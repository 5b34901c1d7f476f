"""Broken: grading raises for whoever calls no tool.

Told: what the verifier raised, for which agent.
"""

from dataclasses import replace

from rollwright.verifiers import FunctionVerifier, Grade
from tests.recipes.worlds.broken_worlds import lamps


def grade(submission):
    (first, *_) = [passage for passage in submission.passages if passage.kind == "tool"]
    return lamps.grade(submission) if first else Grade(value=0.0)


def load():
    return replace(lamps.load(), parts=lamps.graded(FunctionVerifier(name="lamps", revision="1", grade=grade)))
