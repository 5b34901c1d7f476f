"""OpenAI Responses: `POST /v1/responses`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rollwright.record import Ids, Logprobs
from rollwright.rendering import Renderer
from rollwright.rollout.gateway.asked import Answer, Ask, Heard, Told, ToldCall
from rollwright.rollout.gateway.chat import read_openai_sampling, refuse_as_openai
from rollwright.rollout.gateway.dialect import (
    Json,
    Memory,
    Reply,
    definition_of,
    logprob_items,
    named_event,
    without_stop,
)
from rollwright.rollout.gateway.errors import ApiError
from rollwright.rollout.gateway.fields import Fields, text_of_parts
from rollwright.rollout.gateway.telling import Delta

__all__ = ["Responses"]

LARGEST = 2**31 - 1
LEAST_TOKENS = 1
TEXT = frozenset({"input_text", "output_text", "text"})
LOGPROBS = "message.output_text.logprobs"
Part = Literal["reasoning", "text"]


class Responses:
    """The dialect. Every response is remembered for `previous_response_id` while its episode lasts."""

    def read(self, body: Fields, memory: Memory) -> Ask:
        """Read a request, with the conversation that it goes on with."""
        instructions = body.text_or_none("instructions")
        before: tuple[Heard | Told, ...] = () if instructions is None else (Heard(role="system", text=instructions),)
        num_instructions = len(before)
        previous = body.text_or_none("previous_response_id")
        if previous is not None:
            if previous not in memory:
                message = f"Previous response with id {previous[:80]!r} not found."
                raise ApiError(400, message, param="previous_response_id", code="previous_response_not_found")
            before += memory[previous]
        messages = (*before, *_input(body))
        if len(messages) == num_instructions:
            raise body.refused("input", "expected at least one message", code="empty_array")
        tools = dict(_tool(tool) for tool in body.objects("tools"))
        if len(tools) != len(body.items("tools")):
            raise body.refused("tools", "two functions have the same name")
        include = body.items("include")
        _refuse_what_is_not_here(body)
        ask = Ask(
            model=body.text("model"),
            messages=messages,
            num_instructions=num_instructions,
            tools=tools,
            calls=_calls(body, has_tools=bool(tools)),
            max_tokens=body.whole("max_output_tokens", LEAST_TOKENS, LARGEST),
            has_logprobs=LOGPROBS in include,
            is_streamed=body.flag("stream"),
            sampling=read_openai_sampling(body),
        )
        body.refuse_rest()
        return ask

    def write(self, reply: Reply, answers: Sequence[Answer], renderer: Renderer) -> Json:
        """A `response`."""
        (answer,) = answers
        return _response(self, reply, answer, _items(reply, answer, renderer))

    def script(self, reply: Reply, renderer: Renderer) -> "ResponseScript":
        """Events."""
        return ResponseScript(dialect=self, reply=reply, renderer=renderer)

    def id_of(self, reply: Reply) -> str:
        """`resp_…`."""
        return f"resp_{reply.name}"

    def refuse(self, error: ApiError) -> Json:
        """OpenAI's error."""
        return refuse_as_openai(error)


@dataclass(slots=True, kw_only=True, eq=False)
class ResponseScript:
    """Writes the events of a response, numbered; an item is opened with its first delta."""

    dialect: Responses
    reply: Reply
    renderer: Renderer
    _number: int = 0
    _index: int = -1
    _part: Part | None = None
    _told: dict[Part, str] = field(default_factory=lambda: {"reasoning": "", "text": ""})
    _scores: list[Json] = field(default_factory=list[Json])

    def begin(self) -> Iterator[bytes]:
        """`response.created`, `response.in_progress`."""
        begun = _response(self.dialect, self.reply, None, [])
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def tell(self, choice: int, delta: Delta, token_ids: Ids, scores: Logprobs) -> Iterator[bytes]:
        """Reasoning and text."""
        new = logprob_items(self.renderer, token_ids, scores) if self.reply.ask.has_logprobs else []
        self._scores += new
        if delta.reasoning:
            yield from self._open("reasoning")
            self._told["reasoning"] += delta.reasoning
            where = {"item_id": f"rs_{self.reply.name}", "output_index": self._index, "content_index": 0}
            yield self._event("response.reasoning_text.delta", **where, delta=delta.reasoning)
        if delta.text:
            yield from self._open("text")
            self._told["text"] += delta.text
            where = {"item_id": f"msg_{self.reply.name}", "output_index": self._index, "content_index": 0}
            yield self._event("response.output_text.delta", **where, delta=delta.text, logprobs=new)

    def finish(self, choice: int, answer: Answer) -> Iterator[bytes]:
        """The calls."""
        if not answer.told.calls and not self._told["text"]:
            yield from self._open("text")
        yield from self._close()
        for call in answer.told.calls:
            self._index += 1
            item = _call_item(call)
            begun = {**item, "status": "in_progress", "arguments": ""}
            where = {"item_id": item["id"], "output_index": self._index}
            yield self._event("response.output_item.added", output_index=self._index, item=begun)
            yield self._event("response.function_call_arguments.delta", **where, delta=call.arguments)
            yield self._event(
                "response.function_call_arguments.done", **where, arguments=call.arguments, name=call.tool
            )
            yield self._event("response.output_item.done", output_index=self._index, item=item)

    def end(self, answers: Sequence[Answer]) -> Iterator[bytes]:
        """`response.completed` or `response.incomplete`, with the whole."""
        whole = self.dialect.write(self.reply, answers, self.renderer)
        yield self._event(f"response.{whole['status']}", response=whole)

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """`error`."""
        yield self._event("error", code=error.code, message=error.message, param=error.param)

    def _open(self, part: Part) -> Iterator[bytes]:
        if self._part == part:
            return
        yield from self._close()
        self._part = part
        self._index += 1
        item = _item(self.reply, part, "", [], status="in_progress")
        yield self._event("response.output_item.added", output_index=self._index, item={**item, "content": []})
        where = {"item_id": item["id"], "output_index": self._index, "content_index": 0}
        yield self._event("response.content_part.added", **where, part=_content(part, "", []))

    def _close(self) -> Iterator[bytes]:
        part = self._part
        if part is None:
            return
        self._part = None
        text, scores = self._told[part], self._scores if part == "text" else []
        item = _item(self.reply, part, text, scores, status="completed")
        where = {"item_id": item["id"], "output_index": self._index, "content_index": 0}
        if part == "text":
            yield self._event("response.output_text.done", **where, text=text, logprobs=scores)
        else:
            yield self._event("response.reasoning_text.done", **where, text=text)
        yield self._event("response.content_part.done", **where, part=_content(part, text, scores))
        yield self._event("response.output_item.done", output_index=self._index, item=item)

    def _event(self, kind: str, **data: object) -> bytes:
        self._number += 1
        return named_event({"type": kind, "sequence_number": self._number - 1, **data})


def _refuse_what_is_not_here(body: Fields) -> None:
    body.refuse_unless("background", False)  # noqa: FBT003 - a value of the API
    body.refuse_unless("truncation", "disabled")
    body.refuse_unless("top_logprobs", 0)
    for name in ("conversation", "prompt", "context_management"):
        body.refuse_unless(name)
    shape = body.inner("text")
    form = None if shape is None else shape.inner("format")
    if form is not None:
        form.refuse_unless("type", "text")
    body.skip("metadata", "store", "user", "service_tier", "safety_identifier", "prompt_cache_key", "reasoning")
    body.skip("prompt_cache_retention", "max_tool_calls", "stream_options")


def _calls(body: Fields, *, has_tools: bool) -> Literal["read", "one", "text"]:
    body.refuse_unless("tool_choice", "auto", "none")
    is_parallel = body.flag("parallel_tool_calls", default=True)
    if not has_tools or body.raw("tool_choice") == "none":
        return "text"
    return "read" if is_parallel else "one"


def _tool(fields: Fields) -> tuple[str, str]:
    fields.refuse_unless("type", "function")
    return definition_of(fields, "parameters")


def _input(body: Fields) -> list[Heard | Told]:
    given = body.raw("input")
    if isinstance(given, str):
        return [Heard(role="user", text=given)]
    messages: list[Heard | Told] = []
    turn = _Turn()
    for item in body.objects("input"):
        if not turn.takes(item):
            messages += turn.close()
            if not turn.takes(item):
                messages.append(_heard(item))
    return messages + turn.close()


def _heard(item: Fields) -> Heard:
    kind = item.text_or_none("type") or "message"
    if kind == "function_call_output":
        return Heard(role="tool", text=text_of_parts(item, "output", TEXT, "\n"), call_id=item.text("call_id"))
    if kind != "message":
        raise item.refused("type", f"items of type {kind!r:.40} are not taken here", code="unsupported_value")
    role = item.text("role")
    if role not in ("user", "system", "developer"):
        raise item.refused("role", f"expected user, system, developer or assistant, but got {role!r:.40}")
    text = text_of_parts(item, "content", TEXT, "\n")
    return Heard(role="user" if role == "user" else "system", text=text)


@dataclass(slots=True)
class _Turn:
    """Collects the items of one turn, which come in order: reasoning, a message, calls."""

    reasoning: str | None = None
    text: str | None = None
    calls: list[ToldCall] = field(default_factory=list[ToldCall])
    is_open: bool = False

    def takes(self, item: Fields) -> bool:
        """Take an item of the turn; False where it is none, or opens the next one."""
        kind = item.text_or_none("type") or "message"
        if kind == "reasoning" and not self.is_open:
            self.reasoning = text_of_parts(item, "content", frozenset({"reasoning_text", "text"}), "")
        elif kind == "message" and item.raw("role") == "assistant" and self.text is None and not self.calls:
            self.text = text_of_parts(item, "content", TEXT, "")
        elif kind == "function_call":
            arguments = item.text("arguments")
            self.calls.append(ToldCall(call_id=item.text("call_id"), tool=item.text("name"), arguments=arguments))
        else:
            return False
        self.is_open = True
        return True

    def close(self) -> list[Heard | Told]:
        """The turn, if one was begun; then nothing is."""
        told = Told(text=self.text or "", reasoning=self.reasoning or None, calls=tuple(self.calls))
        found: list[Heard | Told] = [told] if self.is_open else []
        self.reasoning, self.text, self.calls, self.is_open = None, None, [], False
        return found


def _content(part: Part, text: str, scores: Sequence[Json]) -> Json:
    if part == "reasoning":
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": list(scores)}


def _item(reply: Reply, part: Part, text: str, scores: Sequence[Json], *, status: str) -> Json:
    content = [_content(part, text, scores)]
    if part == "reasoning":
        return {"id": f"rs_{reply.name}", "type": "reasoning", "summary": [], "content": content, "status": status}
    return {"id": f"msg_{reply.name}", "type": "message", "status": status, "role": "assistant", "content": content}


def _call_item(call: ToldCall) -> Json:
    return {
        "id": f"fc_{call.call_id.removeprefix('call_')}",
        "type": "function_call",
        "status": "completed",
        "call_id": call.call_id,
        "name": call.tool,
        "arguments": call.arguments,
    }


def _items(reply: Reply, answer: Answer, renderer: Renderer) -> list[Json]:
    told = answer.told
    items: list[Json] = []
    if told.reasoning:
        items.append(_item(reply, "reasoning", told.reasoning, [], status="completed"))
    if told.text or not told.calls:
        scores: list[Json] = []
        if reply.ask.has_logprobs:
            scores = logprob_items(renderer, *without_stop(answer.token_ids, answer.behavior_logprobs, renderer))
        items.append(_item(reply, "text", told.text, scores, status="completed"))
    return items + [_call_item(call) for call in told.calls]


def _response(dialect: Responses, reply: Reply, answer: Answer | None, items: Sequence[Json]) -> Json:
    ask = reply.ask
    is_cut = answer is not None and answer.finish == "length"
    status = "in_progress" if answer is None else "incomplete" if is_cut else "completed"
    return {
        "id": dialect.id_of(reply),
        "object": "response",
        "created_at": reply.created,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "instructions": ask.messages[0].text if ask.num_instructions else None,
        "max_output_tokens": ask.max_tokens,
        "metadata": {},
        "model": ask.model,
        "output": list(items),
        "parallel_tool_calls": ask.calls != "one",
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": ask.sampling.numbers.get("temperature", 1.0),
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": ask.sampling.numbers.get("top_p", 1.0),
        "truncation": "disabled",
        "usage": None if answer is None else _usage(reply, answer),
    }


def _usage(reply: Reply, answer: Answer) -> Json:
    drawn = len(answer.token_ids)
    return {
        "input_tokens": reply.num_prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": drawn,
        "output_tokens_details": {"reasoning_tokens": answer.num_reasoning_tokens},
        "total_tokens": reply.num_prompt_tokens + drawn,
    }
