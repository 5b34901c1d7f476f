"""Anthropic Messages: `POST /v1/messages`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rollwright.record import Ids, Logprobs
from rollwright.rendering import Renderer
from rollwright.rollout.gateway.asked import Answer, Ask, Heard, Overruled, Told, ToldCall
from rollwright.rollout.gateway.dialect import Json, Memory, Reply, definition_of, named_event
from rollwright.rollout.gateway.errors import ApiError
from rollwright.rollout.gateway.fields import Fields, text_of_parts
from rollwright.rollout.gateway.telling import Delta

__all__ = ["Messages"]

LARGEST = 2**31 - 1
TEXT = frozenset({"text"})
FINISH = {"stop": "end_turn", "stop_string": "stop_sequence", "length": "max_tokens", "calls": "tool_use"}
KINDS: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
}
Part = Literal["thinking", "text"]


class Messages:
    """The dialect. What the policy thinks is shown where `thinking` is asked for, as with the API's own models."""

    def read(self, body: Fields, memory: Memory) -> Ask:
        """Read a request; it brings its whole conversation along."""
        system = text_of_parts(body, "system", TEXT, "\n")
        messages: list[Heard | Told] = [Heard(role="system", text=system)] if system else []
        for message in body.objects("messages"):
            messages += _message(message)
        if not body.items("messages"):
            raise body.refused("messages", "at least one message is required")
        if isinstance(messages[-1], Told):
            raise body.refused("messages", "the conversation must end with a user message; a turn cannot be prefilled")
        tools = dict(_tool(tool) for tool in body.objects("tools"))
        if len(tools) != len(body.items("tools")):
            raise body.refused("tools", "tool names must be unique")
        max_tokens = body.whole("max_tokens", 1, LARGEST)
        if max_tokens is None:
            raise ApiError(400, "max_tokens: Field required", param="max_tokens")
        ask = Ask(
            model=body.text("model"),
            messages=tuple(messages),
            tools=tools,
            calls=_calls(body, has_tools=bool(tools)),
            max_tokens=max_tokens,
            stops=_stops(body),
            is_streamed=body.flag("stream"),
            shows_reasoning=_shows_thinking(body),
            sampling=_sampling(body),
        )
        body.skip("metadata", "service_tier", "cache_control", "inference_geo", "output_config")
        for name in ("container", "context_management", "mcp_servers"):
            body.refuse_unless(name)
        body.refuse_rest()
        return ask

    def read_count(self, body: Fields) -> Ask:
        """Read a request for a count of tokens, which is one for a message without its `max_tokens`."""
        return self.read(Fields({**body.given, "max_tokens": 1}), {})

    def write(self, reply: Reply, answers: Sequence[Answer], renderer: Renderer) -> Json:
        """A `message`."""
        (answer,) = answers
        told = answer.told
        content: list[Json] = []
        if told.reasoning and reply.ask.shows_reasoning:
            content.append({"type": "thinking", "thinking": told.reasoning, "signature": reply.name})
        if told.text or not told.calls:
            content.append({"type": "text", "text": told.text, "citations": None})
        content += [
            {"type": "tool_use", "id": call.call_id, "name": call.tool, "input": json.loads(call.arguments)}
            for call in told.calls
        ]
        return {
            **_head(self, reply),
            "content": content,
            "stop_reason": FINISH[answer.finish],
            "stop_sequence": answer.stop_string,
            "usage": _usage(reply, len(answer.token_ids)),
        }

    def script(self, reply: Reply, renderer: Renderer) -> "MessageScript":
        """Events."""
        return MessageScript(head=_head(self, reply), reply=reply)

    def id_of(self, reply: Reply) -> str:
        """`msg_…`."""
        return f"msg_{reply.name}"

    def refuse(self, error: ApiError) -> Json:
        """Anthropic's error."""
        message = error.message
        if error.code == "context_length_exceeded":
            message = f"prompt is too long: {message}"
        default = "api_error" if error.status >= 500 else "invalid_request_error"
        return {"type": "error", "error": {"type": KINDS.get(error.status, default), "message": message}}


@dataclass(slots=True, kw_only=True, eq=False)
class MessageScript:
    """Writes the events of a message; a block is opened with its first delta."""

    head: Json
    reply: Reply
    _index: int = -1
    _part: Part | None = None
    _parts: set[Part] = field(default_factory=set[Part])

    def begin(self) -> Iterator[bytes]:
        """`message_start`."""
        open_ends: Json = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": _usage(self.reply, 0)}
        yield named_event({"type": "message_start", "message": {**self.head, **open_ends}})
        yield named_event({"type": "ping"})

    def tell(self, choice: int, delta: Delta, token_ids: Ids, scores: Logprobs) -> Iterator[bytes]:
        """Thinking and text."""
        if delta.reasoning and self.reply.ask.shows_reasoning:
            yield from self._open("thinking")
            yield self._delta({"type": "thinking_delta", "thinking": delta.reasoning})
        if delta.text:
            yield from self._open("text")
            yield self._delta({"type": "text_delta", "text": delta.text})

    def finish(self, choice: int, answer: Answer) -> Iterator[bytes]:
        """The calls."""
        if not answer.told.calls and "text" not in self._parts:
            yield from self._open("text")
        yield from self._close()
        for call in answer.told.calls:
            yield self._start({"type": "tool_use", "id": call.call_id, "name": call.tool, "input": {}})
            yield self._delta({"type": "input_json_delta", "partial_json": call.arguments})
            yield named_event({"type": "content_block_stop", "index": self._index})

    def end(self, answers: Sequence[Answer]) -> Iterator[bytes]:
        """`message_delta`, `message_stop`."""
        (answer,) = answers
        stopped = {"stop_reason": FINISH[answer.finish], "stop_sequence": answer.stop_string}
        usage = _usage(self.reply, len(answer.token_ids))
        yield named_event({"type": "message_delta", "delta": stopped, "usage": usage})
        yield named_event({"type": "message_stop"})

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """`error`."""
        yield named_event(Messages().refuse(error))

    def _open(self, part: Part) -> Iterator[bytes]:
        if self._part == part:
            return
        yield from self._close()
        self._part = part
        self._parts.add(part)
        empty: Json = {"type": "text", "text": ""}
        yield self._start({"type": "thinking", "thinking": "", "signature": ""} if part == "thinking" else empty)

    def _close(self) -> Iterator[bytes]:
        if self._part is None:
            return
        if self._part == "thinking":
            yield self._delta({"type": "signature_delta", "signature": self.reply.name})
        self._part = None
        yield named_event({"type": "content_block_stop", "index": self._index})

    def _start(self, block: Json) -> bytes:
        self._index += 1
        return named_event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _delta(self, delta: Json) -> bytes:
        return named_event({"type": "content_block_delta", "index": self._index, "delta": delta})


def _sampling(body: Fields) -> Overruled:
    given = {
        "temperature": body.number("temperature", 0, 1),
        "top_p": body.number("top_p", 0, 1),
        "top_k": body.number("top_k", 0, LARGEST),
    }
    return Overruled(numbers={name: value for name, value in given.items() if value is not None})


def _shows_thinking(body: Fields) -> bool:
    thinking = body.inner("thinking")
    return thinking is not None and thinking.text("type") in ("enabled", "adaptive")


def _calls(body: Fields, *, has_tools: bool) -> Literal["read", "one", "text"]:
    choice = body.inner("tool_choice")
    if choice is None:
        return "read" if has_tools else "text"
    choice.refuse_unless("type", "auto", "none")
    if not has_tools or choice.raw("type") == "none":
        return "text"
    return "one" if choice.flag("disable_parallel_tool_use") else "read"


def _stops(body: Fields) -> tuple[str, ...]:
    given = body.items("stop_sequences")
    stops = tuple(one for one in given if isinstance(one, str) and one.strip())
    if len(stops) != len(given):
        raise body.refused("stop_sequences", "each stop sequence must be a string that is not white space alone")
    return stops


def _tool(fields: Fields) -> tuple[str, str]:
    fields.refuse_unless("type", "custom")
    if not fields.raw("input_schema"):
        raise ApiError(400, f"{fields.at('input_schema')}: Field required", param=fields.at("input_schema"))
    return definition_of(fields, "input_schema")


def _message(fields: Fields) -> list[Heard | Told]:
    role = fields.text("role")
    content = fields.raw("content")
    if role not in ("user", "assistant"):
        raise fields.refused("role", f"expected user or assistant, but got {role!r:.40}")
    if isinstance(content, str):
        return [Heard(role="user", text=content) if role == "user" else Told(text=content)]
    blocks = fields.objects("content")
    if not blocks:
        raise fields.refused("content", "expected a string or content blocks")
    return _heard(blocks) if role == "user" else [_told(blocks)]


def _heard(blocks: Sequence[Fields]) -> list[Heard | Told]:
    """Results of tools, each a message of its own, and what the user says beside them."""
    heard: list[Heard | Told] = []
    texts: list[str] = []
    for block in blocks:
        match block.text("type"):
            case "text":
                texts.append(block.text("text"))
            case "tool_result":
                if texts:
                    raise block.refused("type", "tool_result blocks come before text in a user message")
                text = text_of_parts(block, "content", TEXT, "\n")
                call_id, is_error = block.text("tool_use_id"), block.flag("is_error")
                heard.append(Heard(role="tool", text=text, call_id=call_id, is_error=is_error))
            case kind:
                raise block.refused("type", f"this model takes text and tool results alone, but got {kind!r:.40}")
    if texts:
        heard.append(Heard(role="user", text="\n".join(texts)))
    return heard


def _told(blocks: Sequence[Fields]) -> Told:
    text, reasoning = "", ""
    calls: list[ToldCall] = []
    for block in blocks:
        match block.text("type"):
            case "text":
                text += block.text("text")
            case "thinking":
                reasoning += block.text("thinking")
            case "redacted_thinking":
                continue
            case "tool_use":
                given = block.inner("input")
                arguments = json.dumps({} if given is None else given.given, ensure_ascii=False)
                calls.append(ToldCall(call_id=block.text("id"), tool=block.text("name"), arguments=arguments))
            case kind:
                raise block.refused("type", f"blocks of type {kind!r:.40} are not taken here")
    return Told(text=text, reasoning=reasoning or None, calls=tuple(calls))


def _head(dialect: Messages, reply: Reply) -> Json:
    return {"id": dialect.id_of(reply), "type": "message", "role": "assistant", "model": reply.ask.model}


def _usage(reply: Reply, drawn: int) -> Json:
    return {
        "input_tokens": reply.num_prompt_tokens,
        "output_tokens": drawn,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
