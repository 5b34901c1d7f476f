"""The program passes the task's tests, run in a sandbox that never learns what the tests expect.

A program may end early, print verdicts, patch what it likes or write the reply itself: all that counts is the value or
the output for an input, compared outside. So nothing but the right values is paid.
"""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from rollwright.record import NamedValue, Submission, Verdict, digest
from rollwright.sandboxes import SandboxError, Sandboxes
from rollwright.verifiers.answers import AnswerRule, final_text
from rollwright.verifiers.code_text import final_code
from rollwright.verifiers.equality import EQUALITY_REVISION
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.grading import (
    PROGRAM_TIMEOUT,
    UNPARSABLE,
    Grade,
    bad_gold,
    gold_payload,
    graded_verdict,
    no_answer,
    ungraded_verdict,
    wrote,
)
from rollwright.verifiers.preludes import Preludes
from rollwright.verifiers.program_output import PROGRAM_OUTPUT_REVISION
from rollwright.verifiers.program_running import PROGRAMS_REVISION, TestOutcome, prepare_program, run_test
from rollwright.verifiers.program_tests import ProgramTests, read_program_tests

__all__ = ["UnitTestRule", "UnitTestVerifier"]

_MAX_CODE_CHARACTERS = 500_000
_ATTEMPTS = 2
"""Of a suite whose sandbox failed."""
_REVISION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTestRule:
    """How tests become a number."""

    scoring: Literal["all", "fraction"] = "all"
    """`all`: 1 where every test passes, else 0, decided by the first that fails. `fraction`: the share that passes."""
    repeats: int = 1
    """How often the suite runs, each time in a fresh sandbox; a test passes that passes every time."""
    suite_s: float = 120.0
    """Of one run of the suite; tests that did not begin in time have failed."""

    def __post_init__(self) -> None:
        """Refuse a suite that never runs."""
        if self.repeats < 1 or not self.suite_s > 0:
            raise VerifierSetupError(f"repeats {self.repeats} is at least 1, and suite_s {self.suite_s} above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTestVerifier:
    """A `record.Verifier`; the sandboxes are shared and closed by whoever opened them."""

    rule: AnswerRule
    sandboxes: Sandboxes
    tests: UnitTestRule = UnitTestRule()
    name: str = "unit_tests"
    deadline_s: float = 900.0
    """Of a call, waiting for a free sandbox included."""
    scope: Literal["trajectory"] = "trajectory"
    preludes: Preludes = field(default_factory=Preludes, repr=False, compare=False)
    """Those that ran alone."""

    @property
    def revision(self) -> str:
        """A digest of the rules and of what programs run in."""
        meanings = [_REVISION, PROGRAMS_REVISION, EQUALITY_REVISION, PROGRAM_OUTPUT_REVISION]
        rule = [self.tests.scoring, self.tests.repeats, self.tests.suite_s]
        return digest([meanings, self.name, self.rule.parts(), rule, self.sandboxes.profile_id])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Judge each in order."""
        return [await self._verdict(submission) for submission in submissions]

    async def _verdict(self, submission: Submission) -> Verdict:
        try:
            grade = await self._grade(submission)
        except GoldError as error:
            return bad_gold(submission, self.name, self.revision, error)
        except SandboxError as error:
            return ungraded_verdict(
                submission, self.name, self.revision, "infrastructure", f"the sandbox failed {_ATTEMPTS} times: {error}"
            )
        return graded_verdict(submission, self.name, self.revision, grade)

    async def _grade(self, submission: Submission) -> Grade:
        tests = read_program_tests(gold_payload(submission))
        code = final_code(final_text(submission, self.rule).text, tests.language)
        if code is None:
            return no_answer(0)
        code = f"{tests.prelude}\n{code}" if tests.prelude else code
        if len(code) > _MAX_CODE_CHARACTERS or "\0" in code:
            return Grade(value=0.0, finding=UNPARSABLE, evidence=f"{len(code)} characters, or a null among them")
        runs = [await self._run(tests, code) for _ in range(self.tests.repeats)]
        if any(outcome.status != "passed" for run in runs for outcome in run):
            await self.preludes.refuse_failing(self.sandboxes, tests)
        return replace(_graded(tests, runs, self.tests), canonical=wrote(code))

    async def _run(self, tests: ProgramTests, code: str) -> list[TestOutcome]:
        """Run the suite, again where the sandbox failed; a solution that breaks every sandbox has failed itself."""
        for _ in range(_ATTEMPTS - 1):
            with suppress(SandboxError):
                return await self._run_once(tests, code)
        try:
            return await self._run_once(tests, code)
        except SandboxError as error:
            async with self.sandboxes.take() as sandbox:  # Raises as well where the sandboxes are at fault.
                await sandbox.program("pass")
            return [TestOutcome(status="ended_early", detail=f"the sandbox ends under it, not under others: {error}")]

    async def _run_once(self, tests: ProgramTests, code: str) -> list[TestOutcome]:
        """Outcomes of the tests that ran; under `all` none runs after the first that fails."""
        outcomes: list[TestOutcome] = []
        async with self.sandboxes.take() as sandbox:
            problem = await prepare_program(sandbox, tests, code)
            if problem is not None:
                return [problem]
            ends = time.monotonic() + self.tests.suite_s
            for place in range(len(tests.tests)):
                if time.monotonic() > ends:
                    return [*outcomes, TestOutcome(status="timeout", detail="the suite's time was used up")]
                outcomes.append(await run_test(sandbox, tests, code, place))
                if self.tests.scoring == "all" and outcomes[-1].status != "passed":
                    break
        return outcomes


def _graded(tests: ProgramTests, runs: list[list[TestOutcome]], rule: UnitTestRule) -> Grade:
    """One number of all runs; a test that was not run has not passed."""
    total = len(tests.tests)
    hits = [[place < len(run) and run[place].status == "passed" for place in range(total)] for run in runs]
    every = [all(column) for column in zip(*hits, strict=True)]
    flaky = sum(len({outcome.status == "passed" for outcome in column}) > 1 for column in zip(*runs, strict=False))
    passed = sum(every)
    failures = [(place, outcome) for run in runs for place, outcome in enumerate(run) if outcome.status != "passed"]
    kinds = Counter(outcome.status for _, outcome in failures)
    value = float(passed == total) if rule.scoring == "all" else passed / total
    first = f"; test {failures[0][0]}: {failures[0][1].status} {failures[0][1].detail}" if failures else ""
    return Grade(
        value=value,
        finding=PROGRAM_TIMEOUT if kinds["timeout"] else None,
        evidence=f"{passed} of {total} tests passed{first}",
        components=(
            NamedValue(name="passed", value=float(passed)),
            NamedValue(name="total", value=float(total)),
            NamedValue(name="flaky", value=float(flaky)),
            *(NamedValue(name=f"failed.{kind}", value=float(count)) for kind, count in sorted(kinds.items())),
        ),
    )
