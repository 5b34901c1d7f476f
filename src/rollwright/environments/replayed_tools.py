"""Tools that answer from a record of what they once gave: offline, the same each time, and loud where it is silent."""

import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from rollwright.environments.errors import EnvironmentSetupError, ToolError
from rollwright.environments.tools import Tool
from rollwright.record import EnvironmentBrokenError, canonical_json, digest
from rollwright.tasks import Json

__all__ = ["RecordedAnswer", "Recorder", "read_answers", "replayed_tool", "write_answers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """What a tool once gave."""

    tool: str
    arguments: str
    """Canonical JSON of the tool's name and what it was given."""
    text: str
    is_error: bool = False
    """Whether it was a ToolError."""


class Recorder:
    """Calls a tool for real and keeps what it gives."""

    def __init__(self) -> None:
        """Begin with nothing kept."""
        self.answers: list[RecordedAnswer] = []

    def watching(self, tool: Tool) -> Tool:
        """The same tool, its answers kept; of plain functions.

        Raises:
            EnvironmentSetupError: for a coroutine.
        """
        _refuse_coroutine(tool)

        def call(**arguments: Json) -> str:
            asked = _asked(tool, arguments)
            try:
                text = str(tool.function(**arguments))
            except ToolError as error:
                self.answers.append(RecordedAnswer(tool=tool.name, arguments=asked, text=str(error), is_error=True))
                raise
            self.answers.append(RecordedAnswer(tool=tool.name, arguments=asked, text=text))
            return text

        return replace(tool, function=call)


def replayed_tool(tool: Tool, answers: Iterable[RecordedAnswer]) -> Tool:
    """A tool of the same schema that answers from a record alone.

    What was never recorded breaks the environment (`EnvironmentBrokenError`, which names the call): the episode is not
    trained, since no answer that could be made up would be the tool's.

    Args:
        tool: that was recorded; it is not called.
        answers: of it, and of others, which are left out.

    Raises:
        EnvironmentSetupError: where one call has two answers.
    """
    _refuse_coroutine(tool)
    known: dict[str, RecordedAnswer] = {}
    for answer in answers:
        if answer.tool == tool.name and known.setdefault(answer.arguments, answer) != answer:
            raise EnvironmentSetupError(
                f"tool {tool.name} gave two answers to {answer.arguments}; a record that is replayed has one"
            )

    def call(**arguments: Json) -> str:
        asked = _asked(tool, arguments)
        answer = known.get(asked)
        if answer is None:
            raise EnvironmentBrokenError(
                f"tool {tool.name} has no recorded answer to {asked[:200]}; {len(known)} calls of it are recorded"
            )
        if answer.is_error:
            raise ToolError(answer.text)
        return answer.text

    rows = sorted([a.arguments, a.text, a.is_error] for a in known.values())
    return replace(tool, function=call, is_quick=True, revision=digest(["replayed", tool.revision, rows])[:16])


def write_answers(path: Path, answers: Iterable[RecordedAnswer]) -> None:
    """One JSON object a line: tool, arguments, text, is_error."""
    rows = [{"tool": a.tool, "arguments": a.arguments, "text": a.text, "is_error": a.is_error} for a in answers]
    path.write_text("".join(canonical_json(row) + "\n" for row in rows), encoding="utf-8")


def read_answers(path: Path) -> tuple[RecordedAnswer, ...]:
    """Read what `write_answers` wrote.

    Raises:
        EnvironmentSetupError: for a line that is no answer.
    """
    found: list[RecordedAnswer] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = cast("Mapping[str, object]", json.loads(line))
            found.append(
                RecordedAnswer(
                    tool=str(row["tool"]),
                    arguments=str(row["arguments"]),
                    text=str(row["text"]),
                    is_error=bool(row["is_error"]),
                )
            )
        except (ValueError, KeyError, TypeError) as error:
            raise EnvironmentSetupError(f"line {number} of {path.name} is no recorded answer: {error}") from error
    return tuple(found)


def _asked(tool: Tool, arguments: Mapping[str, Json]) -> str:
    return canonical_json({"tool": tool.name, "arguments": dict(arguments)})


def _refuse_coroutine(tool: Tool) -> None:
    if inspect.iscoroutinefunction(tool.function):
        raise EnvironmentSetupError(f"tool {tool.name} is a coroutine; only plain functions are recorded and replayed")
