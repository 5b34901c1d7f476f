"""What a run of tests says about a repair: every required test was seen to run and to pass.

A test that did not run is no pass, a printed line is no result, and the command's own end is read before anything else.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from rollwright.record import NamedValue
from rollwright.verifiers.grading import Grade

__all__ = ["RunEnding", "TestRun", "grade_run"]

RunEnding = Literal["ended", "timeout", "memory_limit", "lost"]
"""`timeout`, `memory_limit`: by what the program under test did. `lost`: killed from outside, or never begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRun:
    """One run."""

    __test__ = False  # Its name begins as pytest's classes do.

    outcomes: Mapping[str, bool]
    """Whether it passed, of each test that was seen to run."""
    exit_code: int | None
    ending: RunEnding = "ended"


def grade_run(
    run: TestRun, *, fail_to_pass: Collection[str], pass_to_pass: Collection[str]
) -> Grade | Literal["infrastructure"]:
    """1 where all required tests passed, else 0; no grade where the run was lost by no doing of the program.

    Args:
        run: what was seen.
        fail_to_pass: tests that the fault breaks; at least one.
        pass_to_pass: tests that passed before and must still.
    """
    if run.ending == "lost":
        return "infrastructure"
    shares = (
        NamedValue(name="fail_to_pass", value=_share(run, fail_to_pass)),
        NamedValue(name="pass_to_pass", value=_share(run, pass_to_pass)),
    )
    required = [*fail_to_pass, *pass_to_pass]
    bad = [test for test in required if not run.outcomes.get(test, False)]
    unseen = sum(test not in run.outcomes for test in required)
    evidence = f"{len(required) - len(bad)} of {len(required)} passed, {unseen} not seen"
    if bad:
        evidence += f", the first without a pass: {bad[0]}"
    if run.ending != "ended":
        finding = "program_timeout" if run.ending == "timeout" else "program_memory"
        return Grade(value=0.0, finding=finding, evidence=evidence, components=shares)
    if run.exit_code != 0:
        return Grade(
            value=0.0, finding="exit_code", evidence=f"{evidence}; exit code {run.exit_code}", components=shares
        )
    return Grade(value=float(not bad and len(fail_to_pass) > 0), evidence=evidence, components=shares)


def _share(run: TestRun, tests: Collection[str]) -> float:
    return sum(run.outcomes.get(test, False) for test in tests) / len(tests) if tests else 1.0
