"""Tools that run in an episode's sandbox, and how the result of a program is told to a policy."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import MethodType
from typing import Literal

from rollwright.environments.schemas import FunctionSchema, schema_of
from rollwright.record import digest
from rollwright.sandboxes import SandboxResult

__all__ = ["SandboxTool", "SandboxToolFn", "ToolAnswer", "sandbox_tool", "told_program", "told_shell"]

NOTHING = "(no output)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """What a tool says."""

    status: Literal["ok", "tool_error", "timeout"]
    text: str


SandboxToolFn = Callable[..., Awaitable[ToolAnswer]]
"""A coroutine function whose first parameter is the sandbox; the policy names the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxTool:
    """A tool that is given the episode's sandbox."""

    function: SandboxToolFn
    schema: FunctionSchema
    """Of all parameters but the first."""
    revision: str

    @property
    def name(self) -> str:
        """What the policy calls it."""
        return self.schema.name


def sandbox_tool(function: SandboxToolFn) -> SandboxTool:
    """Make a tool of a typed coroutine function `(sandbox, ...)` with a Google docstring.

    Args:
        function: whatever it raises ends the episode as broken; what the policy did wrong is in the answer.
    """
    schema = schema_of(MethodType(function, function))  # As a method its first parameter is no part of the signature.
    return SandboxTool(
        function=function, schema=schema, revision=digest([schema.text(), inspect.getsource(function)])[:16]
    )


def told_program(result: SandboxResult) -> ToolAnswer:
    """A Python program: what it printed, then the last line of its traceback where it failed."""
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    return _told(result, result.stdout, lines[-1].strip() if lines else f"exit code {result.exit_code}")


def told_shell(result: SandboxResult) -> ToolAnswer:
    """A command: both of its streams, then its exit code where that is not 0."""
    gap = "\n" if result.stdout and not result.stdout.endswith("\n") and result.stderr else ""
    return _told(result, f"{result.stdout}{gap}{result.stderr}", f"exit code {result.exit_code}")


def _told(result: SandboxResult, printed: str, failure: str) -> ToolAnswer:
    shown = printed.strip("\n")
    match result.status:
        case "ok":
            return ToolAnswer(status="ok", text=shown or NOTHING)
        case "failed":
            return ToolAnswer(status="tool_error", text=_with(shown, failure))
        case "timeout" | "cpu_limit":
            return ToolAnswer(status="timeout", text=_with(shown, "stopped: it took too long"))
        case "memory_limit":
            return ToolAnswer(status="tool_error", text=_with(shown, "stopped: it used too much memory"))


def _with(shown: str, problem: str) -> str:
    return f"{shown}\nerror: {problem}" if shown else f"error: {problem}"
