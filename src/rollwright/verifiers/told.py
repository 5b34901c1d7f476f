"""What had to be said was said: facts that the task names stand in what the policy told the user."""

import re
from collections.abc import Sequence

from rollwright.record import Submission, digest
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import FunctionVerifier, Grade, gold_payload

__all__ = ["spoken_turns", "told_verifier"]

_CALL = re.compile(r"<tool_call>.*?(?:</tool_call>|\Z)", re.DOTALL)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"\w+(?:[.,]\d+)*")
_MOST_NUMBERS = 6
"""In one turn that tells something: a list of all numbers tells nothing."""
_MOST_CHARACTERS = 600
_REVISION = 1


def told_verifier(*, name: str = "told") -> FunctionVerifier:
    """1 where every fact of `info.told` stands in some turn of the policy, else 0; 1 where nothing had to be told.

    A fact counts as a run of whole words, in a turn that is no list: at most six numbers and 600 characters. What
    stands in calls or in reasoning was told to nobody.
    """

    def grade(submission: Submission) -> Grade:
        due = gold_payload(submission).info.get("told", ())
        if not isinstance(due, Sequence) or isinstance(due, str) or not all(isinstance(one, str) for one in due):
            raise GoldError("info.told must be a list of texts")
        turns = [_words(turn) for turn in spoken_turns(submission) if _tells(turn)]
        missing = [str(fact) for fact in due if not any(_holds(turn, _words(str(fact))) for turn in turns)]
        return Grade(value=float(not missing), evidence=f"not told: {', '.join(missing)}" if missing else "all told")

    return FunctionVerifier(
        name=name, revision=digest([_REVISION, name, _MOST_NUMBERS, _MOST_CHARACTERS])[:16], grade=grade
    )


def spoken_turns(submission: Submission) -> list[str]:
    """What the policy said in each of its turns, calls taken out."""
    said = (_CALL.sub(" ", passage.text) for passage in submission.passages if passage.kind == "policy")
    return [text.strip() for text in said if text.strip()]


def _tells(turn: str) -> bool:
    return len(turn) <= _MOST_CHARACTERS and len(_NUMBER.findall(turn)) <= _MOST_NUMBERS


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _holds(turn: Sequence[str], fact: Sequence[str]) -> bool:
    places = range(len(turn) - len(fact) + 1)
    return bool(fact) and any(list(turn[at : at + len(fact)]) == list(fact) for at in places)
