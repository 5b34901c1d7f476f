"""Length costs something only where a task is solved reliably."""

import asyncio

import pytest

from rollwright.verifiers import Composition, FunctionVerifier, GoldError, Grade, Part, VerifierSetupError
from rollwright.verifiers.lengths import ReliableLengthVerifier
from tests.verifiers.submissions import ask, submitted


def grade(submission) -> Grade:
    text = submission.passages[-1].text
    if text.startswith("?"):
        raise GoldError("nobody knows")
    return Grade(value=float(text.startswith("right")))


SUCCESS = FunctionVerifier(name="right", revision="1", grade=grade)
LENGTH = ReliableLengthVerifier(success=SUCCESS, threshold=0.5, max_characters=20)


def priced(*texts: str) -> list:
    return [v.outcome for v in ask(LENGTH, *(submitted(t, trajectory_id=f"t-{n}") for n, t in enumerate(texts)))]


@pytest.mark.row("S375")
def test_the_price_is_nothing_below_the_threshold_and_grows_with_the_success_rate():
    right, wrong = "right" + "x" * 5, "wrong" + "x" * 5
    prices = [priced(*[right] * n, *[wrong] * (4 - n)) for n in range(5)]
    assert [p[0] for p in prices] == [0.0, 0.0, 0.0, pytest.approx(-0.25), pytest.approx(-0.5)]
    assert prices[3][3] == 0.0  # a failure pays nothing


@pytest.mark.row("S375")
def test_among_successes_the_shorter_pays_less_and_no_success_falls_below_a_failure():
    short, long, wrong = "right", "right" + "x" * 500, "wrong"
    composition = Composition([Part(verifier=SUCCESS), Part(verifier=LENGTH, weight=0.5, role="shaping")])
    texts = (short, long, long, wrong)
    scores = asyncio.run(composition.score([submitted(t, trajectory_id=f"t-{n}") for n, t in enumerate(texts)]))
    rewards = [score.outcome for score in scores]
    assert rewards == [pytest.approx(1 - 0.5 * 0.5 * 0.25), 0.75, 0.75, 0.0]


def test_an_unknown_success_has_no_price_and_leaves_the_rate():
    assert priced("right", "?") == [pytest.approx(-0.25), "grader_error"]
    with pytest.raises(VerifierSetupError):
        ReliableLengthVerifier(success=SUCCESS, threshold=1.0)
