"""A verifier on labeled cases: what it gets wrong, how often, and of which kind the mistakes are."""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from rollwright.recipes.audits.cases import LabeledCase, read_cases
from rollwright.recipes.audits.judging import Judgement, judge_all
from rollwright.recipes.audits.naming import open_verifier
from rollwright.recipes.build.named_verifiers import DECIDED_BY_ANSWER
from rollwright.recipes.errors import RecipeError
from rollwright.statistics.confusion import Confusion, Judged, confusion_of

__all__ = ["CaseAudit", "CasesOrder", "Mistake", "audit_cases"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesOrder:
    """What was asked for."""

    verifier: str
    """One that ships, or `package.module:name`."""
    cases: Path
    success_at: float = 1.0
    """The value from which a case counts as accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A case that was not judged as it is labeled."""

    case: LabeledCase
    said: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseAudit:
    """What an audit found."""

    verifier: str
    revision: str
    overall: Confusion
    by_kind: Mapping[str, Confusion]
    false_accepts: tuple[Mistake, ...]
    false_rejects: tuple[Mistake, ...]
    errors: tuple[Mistake, ...]
    seconds: float


def audit_cases(order: CasesOrder) -> CaseAudit:
    """Put all cases of a file through a verifier.

    Raises:
        RecipeError: for a file or a verifier that cannot be had, or a threshold that is no finite number.
    """
    if not math.isfinite(order.success_at):
        raise RecipeError(f"answers count as accepted from {order.success_at} on; give a finite number.")
    started = time.monotonic()
    cases = read_cases(order.cases)
    with ExitStack() as stack:
        verifier = open_verifier(order.verifier, stack)
        said = asyncio.run(judge_all(verifier, [case.submission for case in cases], success_at=order.success_at))
        if order.verifier in DECIDED_BY_ANSWER:
            said = [one if case.has_answer else _without_answer(one) for case, one in zip(cases, said, strict=True)]
        revision = verifier.revision
    found = [Mistake(case=case, said=one) for case, one in zip(cases, said, strict=True)]
    return CaseAudit(
        verifier=order.verifier,
        revision=revision,
        overall=_confusion(found),
        by_kind={
            kind: _confusion([one for one in found if one.case.kind == kind])
            for kind in sorted({case.kind for case in cases})
        },
        false_accepts=tuple(f for f in found if f.said.judged is Judged.ACCEPTED and not f.case.is_right),
        false_rejects=tuple(f for f in found if f.said.judged is Judged.REJECTED and f.case.is_right),
        errors=tuple(f for f in found if f.said.judged is Judged.ERROR),
        seconds=time.monotonic() - started,
    )


def _without_answer(said: Judgement) -> Judgement:
    return replace(
        said,
        outcome="grader_error",
        judged=Judged.ERROR,
        finding=None,
        evidence="the case has no gold answer, and this verifier decides by nothing else",
    )


def _confusion(found: Sequence[Mistake]) -> Confusion:
    return confusion_of((one.case.is_right, one.said.judged) for one in found)
