"""OpenEnv servers: reset, step and state, over a websocket of an episode's own or over plain requests.

What the policy writes becomes the action: a JSON object as it is, any other text as the value of the one field that the
action needs. What cannot be an action is answered to the policy, and takes its turn.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol, cast

from rollwright.environments.adapters.game import Departure, Game, Move
from rollwright.environments.adapters.http_session import HttpSession, JsonSocket, ServerAddress, open_socket
from rollwright.record import (
    Action,
    EnvironmentBrokenError,
    Message,
    Task,
    ToolRequest,
    ToolResult,
    canonical_json,
)
from rollwright.tasks import Json, payload_of

__all__ = ["OpenEnv", "OpenEnvTransport"]

OpenEnvTransport = Literal["websocket", "http"]
_POLICY_FAULTS = ("VALIDATION_ERROR", "INVALID_JSON")
"""Codes of errors that say that the action does not fit."""


class _RefusedActionError(Exception):
    """The server takes no such action."""


class _Door(Protocol):
    async def reset(self, arguments: Mapping[str, Json]) -> Mapping[str, Json]: ...
    async def step(self, action: Mapping[str, Json]) -> Mapping[str, Json]: ...
    async def state(self) -> Mapping[str, Json]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEnv:
    """Episodes on one server; `open` is a `StartFn`. A task's `info.reset` is what its reset is given."""

    address: ServerAddress
    transport: OpenEnvTransport = "websocket"
    field: str = ""
    """Of the action, for plain text; empty: the one that the server's schema needs."""

    def open(self, task: Task, seed: int) -> AbstractAsyncContextManager[Game]:
        """Connect."""
        return self._opened(task, seed)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int) -> AsyncGenerator[Game]:
        asked = payload_of(task).info
        given = asked.get("reset")
        arguments: dict[str, Json] = {"seed": asked.get("seed", seed % 2**31), **_mapping(given)}
        field = self.field or await self._only_field()
        if self.transport == "http":
            yield _OpenEnvGame(_RequestDoor(HttpSession(self.address)), arguments, field)
            return
        async with open_socket(self.address, "/ws") as socket:
            yield _OpenEnvGame(_SocketDoor(socket), arguments, field)
            await socket.tell({"type": "close"})

    async def _only_field(self) -> str:
        schema = (await HttpSession(self.address).get("/schema")).json(f"{self.address}/schema")
        required = _mapping(schema.get("action")).get("required")
        names = [str(name) for name in required] if isinstance(required, list) else []
        return names[0] if len(names) == 1 else ""


class _OpenEnvGame:
    def __init__(self, door: _Door, arguments: Mapping[str, Json], field: str) -> None:
        self._door = door
        self._arguments = arguments
        self._field = field

    @property
    def tools(self) -> Mapping[str, str]:
        return MappingProxyType({})

    async def begin(self) -> Move:
        return _move(await self._door.reset(self._arguments))

    async def call(self, request: ToolRequest) -> ToolResult:
        return ToolResult(call_id=request.call_id, status="invalid_call", text="error: write the action as text")

    async def act(self, action: Action) -> Move:
        if action.calls:
            return Move()
        chosen = self._action(action.text)
        if isinstance(chosen, str):
            return Move(messages=(Message(role="user", text=f"error: {chosen}"),))
        try:
            return _move(await self._door.step(chosen))
        except _RefusedActionError as error:
            return Move(messages=(Message(role="user", text=f"error: {error}"),))

    async def leave(self) -> Departure:
        state = await self._door.state()
        return Departure(artifacts={"state.json": canonical_json(state).encode()})

    def _action(self, text: str) -> Mapping[str, Json] | str:
        """The action, or what is wrong with it."""
        try:
            loaded: object = json.loads(text)
        except (ValueError, RecursionError):
            loaded = None
        if isinstance(loaded, dict):
            return cast("Mapping[str, Json]", loaded)
        return {self._field: text} if self._field else "write the action as a JSON object"


class _SocketDoor:
    def __init__(self, socket: JsonSocket) -> None:
        self._socket = socket

    async def reset(self, arguments: Mapping[str, Json]) -> Mapping[str, Json]:
        return await self._ask({"type": "reset", "data": arguments}, "observation")

    async def step(self, action: Mapping[str, Json]) -> Mapping[str, Json]:
        return await self._ask({"type": "step", "data": action}, "observation")

    async def state(self) -> Mapping[str, Json]:
        return await self._ask({"type": "state"}, "state")

    async def _ask(self, message: Mapping[str, Json], wanted: str) -> Mapping[str, Json]:
        answer = await self._socket.ask(message)
        data = _mapping(answer.get("data"))
        if answer.get("type") == "error":
            said = f"{data.get('message', 'no reason given')}"
            if message["type"] == "step" and data.get("code") in _POLICY_FAULTS:
                raise _RefusedActionError(said)
            raise EnvironmentBrokenError(f"the server's error {data.get('code')}: {said[:300]}")
        if answer.get("type") != wanted:
            raise EnvironmentBrokenError(f"the server answers {answer.get('type')!r} where {wanted!r} is due")
        return data


class _RequestDoor:
    def __init__(self, session: HttpSession) -> None:
        self._session = session

    async def reset(self, arguments: Mapping[str, Json]) -> Mapping[str, Json]:
        return (await self._session.post("/reset", arguments)).json("/reset")

    async def step(self, action: Mapping[str, Json]) -> Mapping[str, Json]:
        answer = await self._session.post("/step", {"action": action})
        if answer.status == 422:
            raise _RefusedActionError(answer.text[:300])
        return answer.json("/step")

    async def state(self) -> Mapping[str, Json]:
        return (await self._session.get("/state")).json("/state")


def _move(result: Mapping[str, Json]) -> Move:
    observation = result.get("observation")
    reward = result.get("reward")
    text = observation if isinstance(observation, str) else canonical_json(_mapping(observation))
    paid = float(reward) if isinstance(reward, int | float) else None
    return Move(messages=(Message(role="user", text=text),), reward=paid, is_over=bool(result.get("done")))


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}
