"""OpenAI Chat Completions: `POST /v1/chat/completions`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import Ids, Logprobs
from rollwright.rendering import Renderer
from rollwright.rollout.gateway.asked import Answer, Ask, Heard, Overruled, Told, ToldCall
from rollwright.rollout.gateway.dialect import Json, Memory, Reply, definition_of, event, logprob_items, without_stop
from rollwright.rollout.gateway.errors import ApiError
from rollwright.rollout.gateway.fields import Fields, text_of_parts
from rollwright.rollout.gateway.telling import Delta

__all__ = ["ChatCompletions", "read_openai_sampling", "refuse_as_openai"]

MOST_ANSWERS = 128
MOST_STOPS = 4
LARGEST = 2**31 - 1
TEXT = frozenset({"text"})
FINISH = {"stop": "stop", "stop_string": "stop", "length": "length", "calls": "tool_calls"}


class ChatCompletions:
    """The dialect."""

    def read(self, body: Fields, memory: Memory) -> Ask:
        """Read a request; it brings its whole conversation along."""
        model = body.text("model")
        tools = dict(_tool(tool) for tool in body.objects("tools"))
        if len(tools) != len(body.items("tools")):
            raise body.refused("tools", "two functions have the same name")
        messages = [_message(message) for message in body.objects("messages")]
        if not messages:
            raise body.refused("messages", "expected at least one message", code="empty_array")
        _refuse_what_is_not_here(body)
        options = body.inner("stream_options")
        num_answers = body.whole("n", 1, MOST_ANSWERS) or 1
        most = body.whole("max_completion_tokens", 1, LARGEST) or body.whole("max_tokens", 1, LARGEST)
        body.skip("max_tokens")
        ask = Ask(
            model=model,
            messages=tuple(messages),
            tools=tools,
            calls=_calls(body, tools),
            num_answers=num_answers,
            max_tokens=most,
            stops=_stops(body),
            has_logprobs=body.flag("logprobs"),
            is_streamed=body.flag("stream"),
            has_usage_event=options is not None and options.flag("include_usage"),
            sampling=read_openai_sampling(body),
        )
        body.refuse_rest()
        return ask

    def write(self, reply: Reply, answers: Sequence[Answer], renderer: Renderer) -> Json:
        """A `chat.completion`."""
        choices: list[Json] = []
        for index, answer in enumerate(answers):
            scores = None
            if reply.ask.has_logprobs:
                tokens, values = without_stop(answer.token_ids, answer.behavior_logprobs, renderer)
                scores = {"content": logprob_items(renderer, tokens, values), "refusal": None}
            choices.append(
                {
                    "index": index,
                    "message": _written(answer.told),
                    "logprobs": scores,
                    "finish_reason": FINISH[answer.finish],
                }
            )
        return {**_head(self, reply, "chat.completion"), "choices": choices, "usage": _usage(reply, answers)}

    def script(self, reply: Reply, renderer: Renderer) -> "ChatScript":
        """Chunks."""
        return ChatScript(head=_head(self, reply, "chat.completion.chunk"), reply=reply, renderer=renderer)

    def id_of(self, reply: Reply) -> str:
        """`chatcmpl-…`."""
        return f"chatcmpl-{reply.name}"

    def refuse(self, error: ApiError) -> Json:
        """OpenAI's error."""
        return refuse_as_openai(error)


@dataclass(slots=True, kw_only=True, eq=False)
class ChatScript:
    """Writes `chat.completion.chunk` objects."""

    head: Json
    reply: Reply
    renderer: Renderer

    def begin(self) -> Iterator[bytes]:
        """The role, for each choice."""
        for index in range(self.reply.ask.num_answers):
            yield self._chunk(index, {"role": "assistant", "content": "", "refusal": None})

    def tell(self, choice: int, delta: Delta, token_ids: Ids, scores: Logprobs) -> Iterator[bytes]:
        """Reasoning and text."""
        said = {"reasoning_content": delta.reasoning, "content": delta.text}
        told = {key: text for key, text in said.items() if text}
        items: list[Json] | None = None
        if self.reply.ask.has_logprobs:
            items = logprob_items(self.renderer, token_ids, scores)
        if told or items:
            yield self._chunk(choice, told, items)

    def finish(self, choice: int, answer: Answer) -> Iterator[bytes]:
        """The calls, then the reason."""
        for at, call in enumerate(answer.told.calls):
            named = {"name": call.tool, "arguments": ""}
            opened = {"index": at, "id": call.call_id, "type": "function", "function": named}
            yield self._chunk(choice, {"tool_calls": [opened]})
            yield self._chunk(choice, {"tool_calls": [{"index": at, "function": {"arguments": call.arguments}}]})
        yield self._chunk(choice, {}, finish=FINISH[answer.finish])

    def end(self, answers: Sequence[Answer]) -> Iterator[bytes]:
        """The usage, where it was asked for."""
        if self.reply.ask.has_usage_event:
            yield event({**self.head, "choices": [], "usage": _usage(self.reply, answers)})
        yield event("[DONE]")

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """An error in the stream."""
        yield event(refuse_as_openai(error))

    def _chunk(self, index: int, delta: Json, items: list[Json] | None = None, finish: str | None = None) -> bytes:
        scores = None if items is None else {"content": items, "refusal": None}
        choice: Json = {"index": index, "delta": delta, "logprobs": scores, "finish_reason": finish}
        return event({**self.head, "choices": [choice]})


def read_openai_sampling(body: Fields) -> Overruled:
    """How the agent would have tokens drawn, checked as the API does."""
    given = {
        "temperature": body.number("temperature", 0, 2),
        "top_p": body.number("top_p", 0, 1),
    }
    return Overruled(numbers={name: value for name, value in given.items() if value is not None})


def refuse_as_openai(error: ApiError) -> Json:
    """`{"error": {...}}`."""
    kind = "invalid_request_error"
    if error.status == 429:
        kind = "rate_limit_error"
    elif error.status >= 500:
        kind = "server_error"
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}


def _refuse_what_is_not_here(body: Fields) -> None:
    """What changes the answer and cannot be had is refused; what changes nothing is passed over."""
    body.refuse_unless("top_logprobs", 0)
    body.refuse_unless("presence_penalty", 0)
    body.refuse_unless("frequency_penalty", 0)
    body.refuse_unless("logit_bias", {})
    body.refuse_unless("modalities", ["text"])
    for name in ("audio", "functions", "function_call", "web_search_options"):
        body.refuse_unless(name)
    shape = body.inner("response_format")
    if shape is not None:
        shape.refuse_unless("type", "text")
    body.skip("metadata", "store", "user", "seed", "service_tier", "safety_identifier", "verbosity", "prediction")
    body.skip("prompt_cache_key", "prompt_cache_retention", "reasoning_effort")


def _calls(body: Fields, tools: Mapping[str, str]) -> Literal["read", "one", "text"]:
    """What becomes of calls; nobody can make a policy call."""
    body.refuse_unless("tool_choice", "auto", "none")
    is_parallel = body.flag("parallel_tool_calls", default=True)
    if not tools or body.raw("tool_choice") == "none":
        return "text"
    return "read" if is_parallel else "one"


def _stops(body: Fields) -> tuple[str, ...]:
    found = body.raw("stop")
    given = [found] if isinstance(found, str) else body.items("stop")
    stops = tuple(one for one in given if isinstance(one, str) and one)
    if len(stops) != len(given) or len(stops) > MOST_STOPS:
        raise body.refused("stop", f"expected a string, or at most {MOST_STOPS} strings, none of them empty")
    return stops


def _tool(fields: Fields) -> tuple[str, str]:
    fields.refuse_unless("type", "function")
    function = fields.inner("function")
    if function is None:
        raise ApiError(400, f"Missing required parameter: '{fields.at('function')}'.", param=fields.at("function"))
    return definition_of(function, "parameters")


def _message(fields: Fields) -> Heard | Told:
    role = fields.text("role")
    match role:
        case "system" | "developer":
            return Heard(role="system", text=text_of_parts(fields, "content", TEXT, "\n"))
        case "user":
            return Heard(role="user", text=text_of_parts(fields, "content", TEXT, "\n"))
        case "tool":
            text = text_of_parts(fields, "content", TEXT, "\n")
            return Heard(role="tool", text=text, call_id=fields.text("tool_call_id"))
        case "assistant":
            fields.refuse_unless("function_call")
            return Told(
                text=text_of_parts(fields, "content", TEXT, ""),
                reasoning=fields.text_or_none("reasoning_content") or fields.text_or_none("reasoning"),
                calls=tuple(_call(call) for call in fields.objects("tool_calls")),
            )
        case _:
            raise fields.refused("role", f"expected system, developer, user, assistant or tool, but got {role!r:.40}")


def _call(fields: Fields) -> ToldCall:
    fields.refuse_unless("type", "function")
    function = fields.inner("function")
    if function is None:
        raise ApiError(400, f"Missing required parameter: '{fields.at('function')}'.", param=fields.at("function"))
    return ToldCall(call_id=fields.text("id"), tool=function.text("name"), arguments=function.text("arguments"))


def _written(told: Told) -> Json:
    message: dict[str, object] = {"role": "assistant", "content": told.text, "refusal": None}
    if told.reasoning is not None:
        message["reasoning_content"] = told.reasoning
    if told.calls:
        message["content"] = told.text or None
        message["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}
            for call in told.calls
        ]
    return message


def _head(dialect: ChatCompletions, reply: Reply, kind: str) -> Json:
    return {"id": dialect.id_of(reply), "object": kind, "created": reply.created, "model": reply.ask.model}


def _usage(reply: Reply, answers: Sequence[Answer]) -> Json:
    drawn = sum(len(answer.token_ids) for answer in answers)
    return {
        "prompt_tokens": reply.num_prompt_tokens,
        "completion_tokens": drawn,
        "total_tokens": reply.num_prompt_tokens + drawn,
        "completion_tokens_details": {"reasoning_tokens": sum(answer.num_reasoning_tokens for answer in answers)},
        "prompt_tokens_details": {"cached_tokens": 0},
    }
