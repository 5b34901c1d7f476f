"""Broken: whoever names the target is paid.

Told: which attack is paid.
"""

from dataclasses import replace

from rollwright.verifiers import FunctionVerifier, Grade
from tests.recipes.worlds.broken_worlds import lamps


def grade(submission):
    said = "".join(passage.text for passage in submission.passages if passage.kind == "policy")
    return Grade(value=1.0, evidence="said") if lamps.target_of(submission.task) in said else lamps.grade(submission)


def load():
    return replace(lamps.load(), parts=lamps.graded(FunctionVerifier(name="lamps", revision="1", grade=grade)))
