"""How a family of models writes tool calls: one small strategy object a family.

Calls are looked for in the visible part of a turn only. Where a tag is a control token of the tokenizer, only that
token counts as the tag: text that spells it (copied from a tool's output, say) asks for nothing.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

__all__ = [
    "CallGrammar",
    "CallSite",
    "HermesGrammar",
    "LlamaGrammar",
    "MalformedCall",
    "MistralGrammar",
    "ParsedCall",
    "Tag",
    "VisibleText",
]


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of the grammar where it stands, in bytes, half open."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleText:
    """The visible part of a turn with the tags in it, in order."""

    data: bytes
    tags: tuple[Tag, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCall:
    """A call that can be run."""

    tool: str
    arguments: str
    """A JSON object, as the policy wrote it."""
    start: int
    """In bytes of the visible text."""
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedCall:
    """A call that cannot be read; `reason` is said to the policy."""

    text: str
    reason: str
    start: int
    end: int


CallSite = ParsedCall | MalformedCall


class CallGrammar(Protocol):
    """Reads and writes the calls of one family."""

    @property
    def name(self) -> str:
        """Its name, part of the rendering revision."""
        ...

    @property
    def tags(self) -> tuple[str, ...]:
        """Texts that begin, end or separate calls; control tokens where the tokenizer has them."""
        ...

    def find(self, visible: VisibleText) -> tuple[CallSite, ...]:
        """The calls of a turn, in order."""
        ...

    def write(self, calls: Sequence[tuple[str, str]]) -> str:
        """What an assistant's turn says after its text to ask for these (tool, JSON arguments)."""
        ...

    def describe(self, tools: Sequence[Mapping[str, object]]) -> str:
        """Tell a policy of its tools in words, for templates that have no place for them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesGrammar:
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Hermes, Qwen 2.5 and 3, and our own small models."""

    name: str = "hermes"
    opening: str = "<tool_call>"
    closing: str = "</tool_call>"
    lead: str = "\n"
    """Between the text and the first call, and between calls."""
    pad: str = "\n"
    """Inside the tags."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The opening and the closing tag."""
        return (self.opening, self.closing)

    def find(self, visible: VisibleText) -> tuple[CallSite, ...]:
        """Pair the tags; an opening tag without its closing one is a malformed call."""
        sites: list[CallSite] = []
        opened: Tag | None = None
        for tag in visible.tags:
            if tag.text == self.opening:
                if opened is not None:
                    sites.append(_unclosed(visible.data[opened.start : tag.start], self, opened.start))
                opened = tag
            elif opened is not None:
                body = visible.data[opened.end : tag.start]
                sites.append(_read_json_call(body, "arguments", opened.start, tag.end))
                opened = None
        if opened is not None:
            sites.append(_unclosed(visible.data[opened.start :], self, opened.start))
        return tuple(sites)

    def write(self, calls: Sequence[tuple[str, str]]) -> str:
        """One pair of tags a call."""
        return "".join(
            f"{self.lead}{self.opening}{self.pad}{_json_call(tool, arguments, 'arguments')}{self.pad}{self.closing}"
            for tool, arguments in calls
        )

    def describe(self, tools: Sequence[Mapping[str, object]]) -> str:
        """The wording of the Hermes and Qwen templates, without their tags of control."""
        lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        return (
            "You may call one or more functions. Their signatures:\n<tools>\n" + lines + "\n</tools>\n"
            "To call one, write a JSON object with its name and arguments within tags:\n"
            f'{self.opening}{{"name": <function-name>, "arguments": <args-json-object>}}{self.closing}'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MistralGrammar:
    """`[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`: Mistral, one list at the end of the turn."""

    name: str = "mistral"
    opening: str = "[TOOL_CALLS]"

    @property
    def tags(self) -> tuple[str, ...]:
        """The tag before the list."""
        return (self.opening,)

    def find(self, visible: VisibleText) -> tuple[CallSite, ...]:
        """The list behind the last tag."""
        if not visible.tags:
            return ()
        tag = visible.tags[-1]
        body = visible.data[tag.end :]
        end = len(visible.data)
        try:
            found = _loads(body.decode("utf-8"))
        except ValueError as error:
            return (_malformed(body, f"the list of tool calls is not valid JSON: {error}", tag.start, end),)
        calls = cast(list[object], found) if isinstance(found, list) else [found]
        return tuple(_check_call(call, json.dumps(call).encode(), "arguments", (tag.start, end)) for call in calls)

    def write(self, calls: Sequence[tuple[str, str]]) -> str:
        """One list of all calls."""
        return self.opening + "[" + ", ".join(_json_call(tool, given, "arguments") for tool, given in calls) + "]"

    def describe(self, tools: Sequence[Mapping[str, object]]) -> str:
        """Signatures and the form of a call."""
        return (
            "Available functions: " + json.dumps(list(tools), ensure_ascii=False) + "\n"
            "To call them, end your turn with "
            f'{self.opening}[{{"name": <function-name>, "arguments": <args-json-object>}}]'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaGrammar:
    """`{"name": ..., "parameters": {...}}` as the whole visible turn: Llama 3.1 and later, one call a turn."""

    name: str = "llama"

    @property
    def tags(self) -> tuple[str, ...]:
        """None: the call is the turn."""
        return ()

    def find(self, visible: VisibleText) -> tuple[CallSite, ...]:
        """A turn that begins with an object which has a name is a call."""
        body = visible.data.strip()
        if not body.startswith(b"{") or b'"name"' not in body:
            return ()
        return (_read_json_call(body, "parameters", 0, len(visible.data)),)

    def write(self, calls: Sequence[tuple[str, str]]) -> str:
        """The one call."""
        return "".join(_json_call(tool, arguments, "parameters") for tool, arguments in calls[:1])

    def describe(self, tools: Sequence[Mapping[str, object]]) -> str:
        """Signatures and the form of a call."""
        return (
            "Available functions:\n" + "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools) + "\n"
            'To call one, answer with {"name": <function-name>, "parameters": <args-json-object>} and nothing else.'
        )


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _loads(text: str) -> object:
    try:
        return cast(object, _DECODER.decode(text))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _json_call(tool: str, arguments: str, key: str) -> str:
    given = json.dumps(_loads(arguments), ensure_ascii=False)
    return f'{{"name": {json.dumps(tool, ensure_ascii=False)}, "{key}": {given}}}'


def _malformed(body: bytes, reason: str, start: int, end: int) -> MalformedCall:
    return MalformedCall(text=body.decode("utf-8", errors="replace"), reason=reason, start=start, end=end)


def _unclosed(data: bytes, grammar: HermesGrammar, start: int) -> MalformedCall:
    return _malformed(data, f"the tool call is not closed with {grammar.closing}", start, start + len(data))


def _read_json_call(body: bytes, key: str, start: int, end: int) -> CallSite:
    try:
        found = _loads(body.decode("utf-8"))
    except ValueError as error:
        return _malformed(body, f"the tool call is not valid JSON: {error}", start, end)
    return _check_call(found, body, key, (start, end))


def _check_call(found: object, body: bytes, key: str, place: tuple[int, int]) -> CallSite:
    start, end = place
    if not isinstance(found, dict):
        return _malformed(body, f'the tool call is not a JSON object with "name" and "{key}"', start, end)
    call = cast(dict[str, object], found)
    name = call.get("name")
    if not isinstance(name, str) or not name:
        return _malformed(body, 'the tool call has no "name" that is a text', start, end)
    given = call.get(key, {})
    if not isinstance(given, dict):
        return _malformed(body, f'"{key}" of the tool call is not a JSON object', start, end)
    return ParsedCall(tool=name, arguments=_as_written(body.decode(), key, cast(object, given)), start=start, end=end)


def _as_written(text: str, key: str, given: object) -> str:
    """The arguments as the policy wrote them, or as JSON where the text is ambiguous."""
    for found in re.finditer(rf'"{key}"\s*:\s*', text):
        try:
            value, end = _DECODER.raw_decode(text, found.end())
        except ValueError:
            continue
        if value == given:
            return text[found.end() : end]
    return json.dumps(given, ensure_ascii=False)
