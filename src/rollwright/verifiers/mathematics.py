"""The answer is mathematically equal to the gold one: our own rules first, math-verify for the rest.

math-verify is generous: it accepts dropped and changed units, chained equations (`1=2=5`), tiny numbers that differ and
the question given back. So numbers are compared here, exactly, and only what passes these rules is handed to it.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Literal

from rollwright.record import Canonical, Submission, Verdict, digest
from rollwright.tasks import Payload
from rollwright.verifiers.answers import AnswerRule, read_answer
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import (
    PROGRAM_TIMEOUT,
    UNPARSABLE,
    Grade,
    answered,
    answered_number,
    bad_gold,
    gold_payload,
    graded_verdict,
    no_answer,
    ungraded_verdict,
)
from rollwright.verifiers.math_forms import (
    MATH_FORMS_REVISION,
    given_number,
    gold_number,
    is_numeral,
    judged_by_form,
    plain_math,
)
from rollwright.verifiers.math_pool import MathPool, MathStatus
from rollwright.verifiers.numbers import Number, agree
from rollwright.verifiers.quantities import QUANTITIES_REVISION, is_known_unit
from rollwright.verifiers.question_back import is_question_back

__all__ = ["MathVerifier"]

_MAX_CHARACTERS = 2000
_UNIT_GROUP = re.compile(r"\\(?:text|mathrm|mbox|operatorname)\s*\{([^{}]*)\}")
_UNIT_WORD = re.compile(
    r"[-+]?(?:\d[\d.,]*(?:/\d+)?|\\[dt]?frac\s*\{\d+\}\s*\{\d+\})(?:\s|\\[,;:! ])*"
    r"([A-Za-z]{1,12}(?:[/^][A-Za-z\d]{1,6})*)"
)
"""A number with a word behind it, and nothing else: "5 cm" has a unit, "1+2x" has none."""
_UNIT_SIGN = re.compile(
    r"(?P<percent>\\?%)$|(?P<degree>\N{DEGREE SIGN}|\^\s*(?:\\circ|\{\s*\\circ\s*\}))$|^(?P<dollar>\\\$)"
)
_BARE_DOLLAR = re.compile(r"(?<!\\)\$")
_ASSIGNED = re.compile(r"^\s*[A-Za-z]?\s*=(?!=)")
_COMPUTATION = re.compile(r"(?<=[\w)}\]!])(?<!\d[eE])\s*(?:[-+*]|\\cdot|\\times|\\div|\\[pb]?mod)")
_EXHAUSTED: tuple[MathStatus, ...] = ("cpu_limit", "out_of_memory", "crashed")
_NO_GRADE: tuple[MathStatus, ...] = ("wall_limit", "killed", "not_started")
_PROBE = "7"
"""An answer that can do no harm: where it cannot be compared either, the gold answer is at fault."""
_REVISION = 3
"""Of the rules in this file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MathVerifier:
    """A `record.Verifier`; the pool is shared and closed by whoever made it."""

    rule: AnswerRule
    pool: MathPool
    tolerance: float = 1e-6
    """Relative, where either side is a decimal; a task may state its own as `info.tolerance`."""
    name: str = "math"
    deadline_s: float = 300.0
    """Of a call, waiting for a free process included; the limits of one comparison are the pool's."""
    scope: Literal["trajectory"] = "trajectory"

    @property
    def revision(self) -> str:
        """A digest of the rules and of the libraries that judge."""
        limits = self.pool.limits
        libraries = [version("math-verify"), version("sympy")]
        return digest(
            [
                _REVISION,
                QUANTITIES_REVISION,
                MATH_FORMS_REVISION,
                self.name,
                self.rule.parts(),
                self.tolerance,
                libraries,
                limits.cpu_s,
                limits.memory_bytes,
            ]
        )[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Judge each in order."""
        return [await self._verdict(submission) for submission in submissions]

    async def _verdict(self, submission: Submission) -> Verdict:
        revision = self.revision
        try:
            grade = await self._grade(submission)
        except GoldError as error:
            return bad_gold(submission, self.name, revision, error)
        if not isinstance(grade, str):
            return graded_verdict(submission, self.name, revision, replace(grade, canonical=self._read(submission)))
        return ungraded_verdict(
            submission,
            self.name,
            revision,
            "timeout" if grade == "wall_limit" else "infrastructure",
            f"math-verify: {grade}",
        )

    def _read(self, submission: Submission) -> Canonical | None:
        """A number by its value, anything else as it is written without blanks."""
        answer = read_answer(submission, self.rule).answer
        if not answer:
            return None
        plain = plain_math(answer)
        number = given_number(plain)
        return answered("".join(plain.split())) if number is None else answered_number(number.value)

    async def _grade(self, submission: Submission) -> Grade | MathStatus:
        payload = gold_payload(submission)
        gold = payload.answer.strip()
        reading = read_answer(submission, self.rule)
        number = gold_number(plain_math(gold))
        if not reading.answer:
            return await self._checked(gold, number, no_answer(reading.num_answers))
        answer = _ASSIGNED.sub("", reading.answer).strip() if "=" not in gold else reading.answer.strip()
        evidence = f"{answer[:200]!r} against {gold[:200]!r}"
        given = given_number(plain_math(answer))
        tolerance = payload.number("tolerance", self.tolerance)
        if number is not None and given is not None and not is_question_back(answer, payload):
            return Grade(value=float(agree(number, given, tolerance)), evidence=evidence)
        if (fault := _fault(answer, gold, payload, gold_is_number=number is not None)) is not None:
            refused = Grade(value=0.0, finding=UNPARSABLE, evidence=f"{evidence}: {fault}")
            return await self._checked(gold, number, refused)
        same = judged_by_form(plain_math(answer), plain_math(gold), tolerance)
        if same is not None:
            return Grade(value=float(same), evidence=evidence)
        if _units(answer) != _units(gold):
            return await self._checked(gold, number, Grade(value=0.0, evidence=f"{evidence}: other units"))
        status = await self._blamed(gold, await self._compare(gold, answer))
        return _graded(status, evidence)

    async def _blamed(self, gold: str, status: MathStatus) -> MathStatus:
        """The status of a comparison, where it is not the gold answer's own fault.

        Raises:
            GoldError: where it is.
        """
        if status == "bad_gold":
            raise GoldError(f"{gold[:80]!r} is no mathematics")
        if status not in _EXHAUSTED:
            return status
        probed = await self._compare(gold, _PROBE)
        if probed in _EXHAUSTED:
            raise GoldError(f"{gold[:80]!r} cannot be compared with anything ({status})")
        return probed if probed in _NO_GRADE else status

    async def _checked(self, gold: str, number: Number | None, grade: Grade) -> Grade | MathStatus:
        """A grade that took no comparison, where the gold answer is mathematics at all."""
        if number is not None:
            return grade
        status = await self._compare(gold, None)
        if status in _NO_GRADE:
            return status
        if status != "good_gold":
            raise GoldError(f"{gold[:80]!r} is no mathematics ({status})")
        return grade

    async def _compare(self, gold: str, answer: str | None) -> MathStatus:
        given = None if answer is None else plain_math(answer)
        return await asyncio.wrap_future(self.pool.submit(plain_math(gold), given))


def _graded(status: MathStatus, evidence: str) -> Grade | MathStatus:
    """What the policy can cause is a 0 with a finding; what it cannot cause is no grade."""
    match status:
        case "equal":
            return Grade(value=1.0, evidence=evidence)
        case "different":
            return Grade(value=0.0, evidence=evidence)
        case "cpu_limit":
            return Grade(value=0.0, finding=PROGRAM_TIMEOUT, evidence=f"{evidence}: CPU time used up")
        case "unparsable" | "out_of_memory" | "failed" | "crashed":
            return Grade(value=0.0, finding=UNPARSABLE, evidence=f"{evidence}: {status}")
        case _:
            return status


def _fault(answer: str, gold: str, payload: Payload, *, gold_is_number: bool) -> str | None:
    """Why an answer is none, by the rules above."""
    if len(answer) > _MAX_CHARACTERS:
        return "too long"
    if "\n" in answer or _BARE_DOLLAR.search(plain_math(answer)):
        return "more than one formula"
    if answer.count("=") > gold.count("="):
        return "an equation where a value is asked"
    if gold_is_number and (_COMPUTATION.search(plain_math(answer)) or not is_numeral(plain_math(answer))):
        return "a computation where a number is asked"
    if is_question_back(answer, payload):
        return "the question given back"
    return None


def _units(text: str) -> tuple[str, ...]:
    words = [word for group in _UNIT_GROUP.findall(text) for word in group.split()]
    if not words and (match := _UNIT_WORD.fullmatch(plain_math(text))):
        words = [match[1]] if len(match[1]) > 1 or is_known_unit(match[1]) else []
    signs = [match.lastgroup for match in _UNIT_SIGN.finditer(plain_math(text)) if match.lastgroup]
    return (*words, *signs)
