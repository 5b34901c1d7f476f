"""What the environment itself paid, as a verdict: for environments that bring their reward with their rules."""

from collections.abc import Mapping
from typing import cast

from rollwright.record import NamedValue, Submission, digest
from rollwright.tasks import read_json
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import FunctionVerifier, Grade

__all__ = ["reported_verifier"]

_REVISION = 1
"""Of the rule in this file."""
_OUTCOME = "outcome.json"


def reported_verifier(name: str = "reported") -> FunctionVerifier:
    """The reward of an adapted environment's `outcome.json`, raw; an episode that left none has no number."""
    return FunctionVerifier(name=name, revision=digest(["reported", _REVISION])[:16], grade=_grade)


def _grade(submission: Submission) -> Grade:
    try:
        outcome = cast("Mapping[str, object]", read_json(submission.artifacts[_OUTCOME].decode()))
        reward = float(cast("float", outcome["reward"]))
        components = cast("Mapping[str, float]", outcome["components"])
        named = tuple(NamedValue(name=key, value=float(value)) for key, value in sorted(components.items()))
    except (KeyError, ValueError, TypeError) as error:
        raise GoldError(f"the environment left no {_OUTCOME} that can be read: {error!r}") from error
    ending = "over" if outcome.get("is_over") else "not over"
    return Grade(value=reward, evidence=f"paid by the environment, {ending}", components=named)
