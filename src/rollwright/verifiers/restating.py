"""A verifier's answer said anew: only text, finite numbers and the verifier's own name reach the record.

A verifier may come from outside the project and answer with anything. What cannot be said anew is refused as a whole,
so that nothing half read becomes a reward.
"""

import math
from collections.abc import Sequence
from typing import cast, get_args

from rollwright.record import Canonical, GradingError, NamedValue, Submission, Verdict, Verifier

__all__ = ["LARGEST_VALUE", "VerdictError", "describe", "restate", "shorten"]

LARGEST_VALUE = 1e12
"""Of a value or a reward, either sign: its square and a sum of those stay finite in single precision."""
EVIDENCE_CHARACTERS = 4000
_CAUSES = frozenset(get_args(GradingError))


class VerdictError(ValueError):
    """The answer of a verifier is no verdict."""


def restate(verifier: Verifier, answer: object, submissions: Sequence[Submission], latency_s: float) -> list[Verdict]:
    """Read an answer and build its verdicts anew.

    Args:
        verifier: that gave it.
        answer: whatever came back.
        submissions: that were asked about.
        latency_s: of each verdict.

    Raises:
        VerdictError: where it is not one verdict of this verifier for each submission, in order. An object that only
            resembles a verdict may raise anything else.
    """
    given = list(cast("Sequence[Verdict]", answer))
    wanted = [submission.trajectory_id for submission in submissions]
    named = [verdict.trajectory_id for verdict in given]
    if named != wanted:
        raise VerdictError(f"verdicts on {named[:5]} where {wanted[:5]} were asked for")
    return [
        _restated(verifier, verdict, submission, latency_s)
        for verdict, submission in zip(given, submissions, strict=True)
    ]


def describe(error: BaseException) -> str:
    """Class and message of an error, also of one whose message cannot be had."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - an error from outside may fail at saying what it is
        return type(error).__name__


def shorten(text: str) -> str:
    """Text that can be stored as evidence: cut to its bound, without halves of characters."""
    return text[:EVIDENCE_CHARACTERS].encode(errors="replace").decode()


def _restated(verifier: Verifier, verdict: Verdict, submission: Submission, latency_s: float) -> Verdict:
    for what, said, own in (
        ("name", verdict.verifier, verifier.name),
        ("revision", verdict.revision, verifier.revision),
        ("scope", verdict.scope, verifier.scope),
    ):
        if not isinstance(cast("object", said), str) or said != own:
            raise VerdictError(f"a verdict in the {what} of {said!r}; the verifier's is {own!r}")
    if verdict.span is not None:
        raise VerdictError(f"a verdict of scope {verifier.scope} has a span: {verdict.span!r}")
    return Verdict(
        trajectory_id=submission.trajectory_id,
        verifier=verifier.name,
        revision=verifier.revision,
        scope=verifier.scope,
        outcome=_outcome(verdict.outcome),
        components=tuple(
            NamedValue(name=_text("the name of a component", part.name), value=_number(part.name, part.value))
            for part in verdict.components
        ),
        finding=None if verdict.finding is None else _text("the finding", verdict.finding),
        evidence=_text("the evidence", verdict.evidence),
        latency_s=latency_s,
        cost=None if verdict.cost is None else _number("cost", verdict.cost),
        canonical=_canonical(verdict),
    )


def _canonical(verdict: object) -> Canonical | None:
    """What was read, where it is text of one of the two kinds; an object that only resembles a verdict has none."""
    given = verdict.canonical if isinstance(verdict, Verdict) else None
    if not isinstance(given, Canonical) or given.kind not in ("answer", "program"):
        return None
    return given if isinstance(cast("object", given.text), str) else None


def _outcome(given: object) -> float | GradingError:
    if not isinstance(given, str):
        return _number("the value", given)
    if given not in _CAUSES:
        raise VerdictError(f"the outcome {given[:40]!r} is neither a number nor one of {', '.join(sorted(_CAUSES))}")
    return cast("GradingError", str(given))


def _number(what: str, given: object) -> float:
    if isinstance(given, (str, bytes, bytearray)):
        raise VerdictError(f"{what} is text: {given[:40]!r}")
    number = float(cast("float", given))
    if not math.isfinite(number) or abs(number) > LARGEST_VALUE:
        raise VerdictError(f"{what}, {number}, is not a finite number of at most {LARGEST_VALUE:g}")
    return number


def _text(what: str, given: object) -> str:
    if not isinstance(given, str):
        raise VerdictError(f"{what} is a {type(given).__name__}; it must be text")
    return shorten(str(given))
