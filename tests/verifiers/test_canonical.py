"""What graders read as an answer: equal for answers that mean the same, and nothing where nothing was read."""

import asyncio
from typing import Literal, cast

import pytest

from rollwright.record import Canonical, Verdict
from rollwright.verifiers import Composition, FunctionVerifier, Grade, Part
from rollwright.verifiers.answers import AnswerRule
from rollwright.verifiers.choice import choice_verifier
from rollwright.verifiers.exact import exact_verifier
from rollwright.verifiers.grading import wrote
from rollwright.verifiers.numeric import numeric_verifier
from tests.verifiers.submissions import submitted

RULE = AnswerRule()


def read(verifier, text, *, gold="12"):
    (said,) = asyncio.run(verifier.verify([submitted(text, gold)]))
    return said.canonical


@pytest.mark.parametrize(("left", "right"), [("12", "12.0"), ("0.5", "0.50"), ("1,000", "1000")])
def test_numbers_are_read_by_their_value(left, right):
    one, other = (read(numeric_verifier(RULE), f"answer: {text}") for text in (left, right))
    assert one is not None and one == other


def test_texts_are_read_after_normalization():
    assert read(exact_verifier(RULE), "answer:  a   b", gold="x") == Canonical(kind="answer", text="a b")


@pytest.mark.parametrize("verifier", [exact_verifier(RULE), numeric_verifier(RULE), choice_verifier(RULE)])
def test_where_nothing_was_answered_nothing_was_read(verifier):
    assert read(verifier, "I do not know", gold="B" if verifier.name == "choice" else "12") is None


def test_blanks_at_the_ends_of_lines_make_no_other_program():
    assert wrote("a = 1  \nb = 2\n") == wrote("\na = 1\nb = 2")
    assert wrote("a = 1") != wrote("a = 2")


def test_what_was_read_comes_through_a_composition_and_only_as_text():
    class Odd:
        name, revision, deadline_s = "odd", "r1", 1.0
        scope: Literal["trajectory"] = "trajectory"

        async def verify(self, submissions):
            return [
                Verdict(
                    trajectory_id=s.trajectory_id,
                    verifier="odd",
                    revision="r1",
                    scope="trajectory",
                    outcome=1.0,
                    canonical=Canonical(kind="answer", text=cast("str", 7)),
                )
                for s in submissions
            ]

    parts = [Part(verifier=exact_verifier(RULE)), Part(verifier=Odd())]
    (score,) = asyncio.run(Composition(parts).score([submitted("answer: 12", "12")]))
    assert [v.canonical for v in score.verdicts] == [Canonical(kind="answer", text="12"), None]


def test_a_grade_without_one_gives_none():
    grader = FunctionVerifier(name="plain", revision="r1", grade=lambda _: Grade(value=1.0))
    assert read(grader, "answer: 1") is None
