"""A trace whose answer does not survive being cut and finished again weighs less."""

import asyncio

import pytest

from rollwright.record import Submission
from rollwright.verifiers import Composition, FunctionVerifier, Grade, Part, VerifierSetupError
from rollwright.verifiers.self_consistency import SelfConsistencyVerifier
from tests.verifiers.submissions import submitted, verdict_of


async def finish(submission: Submission, kept: float, number: int) -> Submission:
    """Keeps a derivation as it is; a guess comes out anew, another one each time but the last."""
    text = submission.passages[-1].text
    if text.startswith("derived"):
        return submitted("derived anew\nanswer: Paris")
    return submitted("answer: paris" if (kept, number) == (0.75, 1) else f"guessed anew\nanswer: {kept} {number}")


VERIFIER = SelfConsistencyVerifier(finish=finish, finisher="tests")


@pytest.mark.row("S403")
def test_a_trace_that_flips_under_truncation_and_resampling_weighs_less():
    steady, flipping = submitted("derived\nanswer: Paris"), submitted("guessed\nanswer: Paris")
    first, second = verdict_of(VERIFIER, steady), verdict_of(VERIFIER, flipping)
    assert (first.outcome, second.outcome) == (1.0, 0.25)
    assert {part.name: part.value for part in second.components}["flips"] == 3.0
    assert verdict_of(VERIFIER, flipping).outcome == 0.25
    right = FunctionVerifier(name="right", revision="1", grade=lambda _: Grade(value=1.0))
    composition = Composition([Part(verifier=right), Part(verifier=VERIFIER, role="gate")])
    rewards = [asyncio.run(composition.score([s]))[0].outcome for s in (steady, flipping)]
    assert rewards == [1.0, 0.25]


def test_no_answer_is_a_finding_and_a_finisher_that_fails_is_no_number():
    assert verdict_of(VERIFIER, submitted("derived")).finding == "no_answer"

    async def broken(submission: Submission, kept: float, number: int) -> Submission:
        raise RuntimeError("the model is away")

    verifier = SelfConsistencyVerifier(finish=broken, finisher="tests")
    (score,) = asyncio.run(Composition([Part(verifier=verifier)]).score([submitted("answer: Paris")]))
    assert score.outcome == "grader_error"
    with pytest.raises(VerifierSetupError):
        SelfConsistencyVerifier(finish=finish, finisher="tests", cuts=(1.0,))
