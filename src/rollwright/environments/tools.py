"""A tool: a typed Python function with its schema, and what happens to the text that it gives."""

import inspect
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import cast

from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.schemas import FunctionSchema, schema_of
from rollwright.record import digest

__all__ = ["Tool", "clean_text", "cut_text", "tool_of"]

ToolFunction = Callable[..., object | Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that a policy may call."""

    function: ToolFunction
    schema: FunctionSchema
    revision: str
    """A digest of its schema and its source."""
    is_quick: bool = False
    """Whether it is a plain function that may run in the event loop."""

    @property
    def name(self) -> str:
        """What the policy calls it."""
        return self.schema.name


def tool_of(
    function: ToolFunction, *, settings: Mapping[str, float | str] | None = None, is_quick: bool = False
) -> Tool:
    """Make a tool of a typed function with a Google docstring.

    A tool is given the environment's deadline. At it a coroutine function is cancelled; a plain function runs in a
    thread of its own, beside other calls of it, and is left behind there. Either raises `ToolError` with what the
    policy should read; anything else that it raises is the environment's own failure and ends the episode without a
    reward.

    Args:
        function: gives text, or a value whose `str` is shown.
        settings: what else decides its behavior; part of the revision.
        is_quick: of a plain function that bounds its own time to well below a millisecond: it runs in the event loop,
            without a deadline and without the cost of a thread.

    Raises:
        EnvironmentSetupError: for a function without types, docstring or readable source, or a quick coroutine.
    """
    schema = schema_of(function)
    if is_quick and inspect.iscoroutinefunction(function):
        raise EnvironmentSetupError(f"tool {schema.name} is a coroutine; only a plain function can be declared quick")
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError) as error:
        raise EnvironmentSetupError(
            f"tool {schema.name}: its source cannot be read, so its revision is unknown; define it in a file"
        ) from error
    named = dict(cast("Mapping[str, float | str]", settings or {}))
    return Tool(
        function=function, schema=schema, revision=digest([schema.text(), source, named])[:16], is_quick=is_quick
    )


def clean_text(text: str) -> str:
    """Text without control characters, lone surrogates and odd line ends: what a tokenizer and a log can take."""
    if text.isascii() and text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(_clean(character) for character in lines)


def cut_text(text: str, limit: int) -> str:
    """At most `limit` characters of the text: head and tail, with a mark in the middle that says what was cut.

    Args:
        text: of a tool.
        limit: characters that are kept; the mark comes on top.
    """
    if len(text) <= limit:
        return text
    head = (limit + 1) // 2
    tail = text[len(text) - (limit - head) :] if limit > head else ""
    return f"{text[:head]}[... {len(text) - limit} of {len(text)} characters cut ...]{tail}"


def _clean(character: str) -> str:
    if character in "\n\t":
        return character
    match unicodedata.category(character):
        case "Cc" | "Cf":
            return ""
        case "Cs" | "Co" | "Cn":
            return "\N{REPLACEMENT CHARACTER}"
        case _:
            return character
