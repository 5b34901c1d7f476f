"""Resource servers of NeMo-Gym: POST /seed_session, tools as routes, POST /verify with the whole answer.

A row carries `responses_create_params` (input, tools) and what the server's verifier needs. The turns and calls of the
episode are given to it in the form of a response; it pays once, at the end. A sample that it masks has no reward.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType

from rollwright.environments.adapters.game import Departure, Game, Move
from rollwright.environments.adapters.http_session import HttpSession, ServerAddress
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.record import (
    Action,
    EnvironmentBrokenError,
    Message,
    NamedValue,
    Task,
    ToolRequest,
    ToolResult,
    canonical_json,
)
from rollwright.tasks import Json, payload_of

__all__ = ["NemoGym", "nemo_gym_messages"]

_CARRIED = frozenset({"input", "instructions", "tools", "parallel_tool_calls", "tool_choice", "metadata"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NemoGym:
    """Episodes on one server; `open` is a `StartFn`. A task's `info.row` is the row."""

    address: ServerAddress

    def open(self, task: Task, seed: int) -> AbstractAsyncContextManager[Game]:
        """Begin a session."""
        return self._opened(task)

    @asynccontextmanager
    async def _opened(self, task: Task) -> AsyncGenerator[Game]:
        row = payload_of(task).info.get("row")
        if not isinstance(row, Mapping):
            raise EnvironmentBrokenError(f"task {task.task_id} has no `info.row`; it is no task of this world")
        session = HttpSession(self.address)
        seeded = (await session.post("/seed_session", row)).json("/seed_session")
        if seeded.get("mcp"):
            raise EnvironmentBrokenError("its tools are on an MCP server; only tools as routes can be carried")
        yield _NemoGame(session, row)


class _NemoGame:
    def __init__(self, session: HttpSession, row: Mapping[str, Json]) -> None:
        self._session = session
        self._row = row
        self._asked = nemo_gym_messages(row)
        self._definitions = {name: text for name, text in _tools(row)}
        self._output: list[Mapping[str, Json]] = []
        self._results: list[tuple[ToolRequest, ToolResult]] = []
        self._is_paid = False

    @property
    def tools(self) -> Mapping[str, str]:
        return MappingProxyType(self._definitions)

    async def begin(self) -> Move:
        return Move(messages=self._asked)

    async def call(self, request: ToolRequest) -> ToolResult:
        result = await self._answer(request)
        self._results.append((request, result))
        return result

    async def act(self, action: Action) -> Move:
        results, self._results = self._results, []
        if action.text:
            self._output.append(_said(action.text, len(self._output)))
        self._output += [
            {"type": "function_call", "call_id": q.call_id, "name": q.tool, "arguments": q.arguments}
            for q, _ in results
        ]
        self._output += [
            {"type": "function_call_output", "call_id": q.call_id, "output": result.text} for q, result in results
        ]
        if results:
            return Move()
        worth = await self._verify()
        return Move(reward=worth.reward, components=worth.components, is_over=True)

    async def leave(self) -> Departure:
        return Departure() if self._is_paid else await self._verify()

    async def _answer(self, request: ToolRequest) -> ToolResult:
        if request.tool not in self._definitions:
            known = ", ".join(self._definitions) or "none"
            text = f"error: unknown tool {request.tool[:40]!r}; available: {known}"
            return ToolResult(call_id=request.call_id, status="invalid_call", text=text)
        try:
            arguments: Json = json.loads(request.arguments)
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, Mapping):
            text = "error: the arguments must be a JSON object"
            return ToolResult(call_id=request.call_id, status="invalid_call", text=text)
        answer = await self._session.post(f"/{request.tool}", arguments)
        if answer.status >= 500:
            raise EnvironmentBrokenError(f"tool {request.tool} answers {answer.status}: {answer.text[:200]}")
        status = "ok" if answer.status < 400 else "tool_error"
        return ToolResult(call_id=request.call_id, status=status, text=answer.text)

    async def _verify(self) -> Departure:
        self._is_paid = True
        params = _params(self._row)
        response: dict[str, Json] = {
            "id": "resp_0",
            "created_at": 0.0,
            "model": "policy",
            "object": "response",
            "output": self._output,
            "parallel_tool_calls": params.get("parallel_tool_calls", True),
            "tool_choice": params.get("tool_choice", "auto"),
            "tools": params.get("tools", []),
            "status": "completed",
        }
        given = (await self._session.post("/verify", {**self._row, "response": response})).json("/verify")
        if given.get("mask_sample"):
            raise EnvironmentBrokenError(f"the server masks the sample: {given.get('failure_reason')}")
        reward = given.get("reward")
        if isinstance(reward, bool) or not isinstance(reward, int | float):
            raise EnvironmentBrokenError(f"/verify gives the reward {reward!r}, which is no number")
        parts = given.get("reward_components")
        components = tuple(
            NamedValue(name=name, value=float(value))
            for name, value in (parts.items() if isinstance(parts, Mapping) else ())
            if isinstance(value, int | float)
        )
        return Departure(reward=float(reward), components=components)


def nemo_gym_messages(row: Mapping[str, Json]) -> tuple[Message, ...]:
    """What a row asks.

    Raises:
        EnvironmentSetupError: for what is no text, and for settings of sampling, with their names.
    """
    params = _params(row)
    if foreign := sorted(name for name in params if name not in _CARRIED and params[name] is not None):
        raise EnvironmentSetupError(
            f"responses_create_params sets {', '.join(foreign)}; the recipe decides these, so they cannot be carried"
        )
    given, found = params.get("input"), list[Message]()
    instructions = params.get("instructions")
    if isinstance(instructions, str) and instructions:
        found.append(Message(role="system", text=instructions))
    if isinstance(given, str):
        return (*found, Message(role="user", text=given))
    for one in given if isinstance(given, Sequence) else ():
        if not isinstance(one, Mapping) or one.get("type", "message") != "message":
            raise EnvironmentSetupError(f"an input is no message: {str(one)[:80]}; only messages can be carried")
        role = "system" if one.get("role") == "developer" else str(one.get("role"))
        found.append(Message(role=role, text=_plain(one.get("content"))))
    if not found or found[-1].role != "user":
        raise EnvironmentSetupError("responses_create_params.input must end with a message of the user")
    return tuple(found)


def _plain(content: Json) -> str:
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in content if isinstance(content, Sequence) else ():
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            raise EnvironmentSetupError("an input holds an image or a file; only text can be carried")
        texts.append(text)
    return "\n".join(texts)


def _params(row: Mapping[str, Json]) -> Mapping[str, Json]:
    params = row.get("responses_create_params")
    if not isinstance(params, Mapping):
        raise EnvironmentSetupError("the row has no `responses_create_params`")
    return params


def _tools(row: Mapping[str, Json]) -> list[tuple[str, str]]:
    given = _params(row).get("tools") or ()
    found: list[tuple[str, str]] = []
    for one in given if isinstance(given, Sequence) else ():
        if not isinstance(one, Mapping) or one.get("type") != "function":
            raise EnvironmentSetupError(f"a tool is no function: {str(one)[:80]}; only functions can be carried")
        name = str(one["name"])
        definition: Json = {
            "name": name, "description": one.get("description") or "", "parameters": one.get("parameters") or {}
        }  # fmt: skip
        found.append((name, canonical_json({"type": "function", "function": definition})))
    return found


def _said(text: str, place: int) -> Mapping[str, Json]:
    content: Json = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": f"msg_{place}", "type": "message", "role": "assistant", "status": "completed", "content": content}
