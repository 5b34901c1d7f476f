"""Whether the code that a task puts before every solution runs by itself: where it does not, no solution could pass.

Asked only where a solution failed, and answered by running the prelude alone, in a sandbox of its own and under the
limits of the task's tests.
"""

import ast
from dataclasses import replace

from rollwright.record import digest
from rollwright.sandboxes import Sandboxes
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.program_running import TestOutcome, call_value, prepare_program, run_test
from rollwright.verifiers.program_tests import CallTest, ProgramTests, StreamTest

__all__ = ["Preludes"]

_PROBE = "prelude_has_run"
_MOST_KNOWN = 4096
_MOST_CUTS = 50


class Preludes:
    """What became of preludes that ran alone; each is run once, again only where its time was used up."""

    def __init__(self) -> None:
        """Nothing ran yet."""
        self._known: dict[str, str] = {}

    async def refuse_failing(self, sandboxes: Sandboxes, tests: ProgramTests) -> None:
        """Refuse a task whose prelude fails without any solution.

        Raises:
            GoldError: where it does.
            SandboxError: where the sandbox failed by no doing of the prelude.
        """
        code = _whole_statements(tests.prelude) if tests.language == "python" else ""
        if not code.strip():
            return
        given = tests.tests[0].stdin if isinstance(tests.tests[0], StreamTest) else None
        key = digest([code, given, tests.wall_s, tests.memory_bytes])
        problem = self._known.get(key)
        if problem is None:
            outcome = await _run_alone(sandboxes, tests, code)
            problem = f"{outcome.status} {outcome.detail}".strip() if outcome is not None else ""
            if outcome is None or outcome.status != "timeout":
                self._remember(key, problem)
        if problem:
            raise GoldError(f"info.prelude fails by itself, before any solution: {problem}")

    def _remember(self, key: str, problem: str) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[key] = problem


async def _run_alone(sandboxes: Sandboxes, tests: ProgramTests, code: str) -> TestOutcome | None:
    """None where it runs to its end."""
    async with sandboxes.take() as sandbox:
        if isinstance(tests.tests[0], StreamTest):
            await prepare_program(sandbox, tests, code)
            outcome = await run_test(sandbox, tests, code, 0)
            return None if outcome.status in ("passed", "wrong") else outcome
        code = f"{code}\ndef {_PROBE}():\n    return None\n"
        value = await call_value(sandbox, replace(tests, entry_point=_PROBE), code, CallTest(args=(), expected=None), 0)
        return value if isinstance(value, TestOutcome) else None


def _whole_statements(prelude: str) -> str:
    """The prelude without a last statement that the solution is to complete."""
    lines = prelude.split("\n")
    begun = [place for place, line in enumerate(lines) if line[:1].strip()]
    for place in [len(lines), *reversed(begun)][:_MOST_CUTS]:
        part = "\n".join(lines[:place])
        if _parses(part):
            return part
    return ""


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
