"""The server that all episodes of a process share: an address and a key for each, three APIs behind every address.

    /<episode>/v1/chat/completions, …/responses, …/messages, …/messages/count_tokens, …/models
    /<episode>/reward   what the agent has to say of its episode, or of one turn
    /<episode>/end      it is done, or has failed: for agents that nobody here started

It listens on loopback alone, in the loop of whoever opened it, and takes no signals.
"""

import asyncio
import hmac
import secrets
import socket
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from rollwright.record import NamedValue, TerminalReason
from rollwright.rendering import Renderer
from rollwright.rollout.borders import describe
from rollwright.rollout.gateway.chat import ChatCompletions, refuse_as_openai
from rollwright.rollout.gateway.dialect import Dialect
from rollwright.rollout.gateway.errors import ApiError, ended
from rollwright.rollout.gateway.fields import Fields, read_body
from rollwright.rollout.gateway.messages import Messages
from rollwright.rollout.gateway.reports import AgentFace
from rollwright.rollout.gateway.responses import Responses
from rollwright.rollout.gateway.session import Session
from rollwright.rollout.gateway.streaming import EventStream, until_done

__all__ = ["Address", "Gateway"]

MOST_REMEMBERED = 4096
"""Episodes that have ended, whose late callers are told so."""
MOST_BODY_BYTES = 16 << 20
HEARD_OUT = 8
"""How many times as much is read of a body that is refused, and thrown away."""
LARGEST_REWARD = 1e12
CLOSING_S = 2
"""How long connections may take to end when the server is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where one episode is served, and the key that it takes."""

    root: str
    """`http://127.0.0.1:PORT/<trajectory_id>`: the base of Anthropic's clients; `/reward` and `/end` are behind it."""
    api_key: str

    @property
    def base_url(self) -> str:
        """The base of OpenAI's clients; those of Anthropic work with it too."""
        return f"{self.root}/v1"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Open:
    session: Session
    face: AgentFace
    key: str


class Gateway:
    """Serves the episodes that are open; made by `Gateway.listening`."""

    def __init__(self, renderer: Renderer, port: int, most_body_bytes: int) -> None:
        self._renderer = renderer
        self._port = port
        self._most_body_bytes = most_body_bytes
        self._open: dict[str, _Open] = {}
        self._ended: OrderedDict[str, tuple[str, str]] = OrderedDict()

    @staticmethod
    @asynccontextmanager
    async def listening(
        renderer: Renderer, *, port: int = 0, most_body_bytes: int = MOST_BODY_BYTES
    ) -> "AsyncGenerator[Gateway]":
        """Listen on loopback while the context lasts.

        Args:
            renderer: of the policy's tokenizer.
            port: 0 takes a free one.
            most_body_bytes: a larger body is refused, and never held.
        """
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", port))
            listening.listen(1024)
            gateway = Gateway(renderer, int(listening.getsockname()[1]), most_body_bytes)
            app = Starlette(routes=gateway._routes(), exception_handlers={404: _unknown_path, 405: _unknown_path})
            async with _served(app, listening):
                yield gateway

    @contextmanager
    def opened(self, session: Session, face: AgentFace) -> Generator[Address]:
        """Serve an episode while the context lasts; afterwards callers are told that it has ended.

        Raises:
            ValueError: where an episode of that name is open already.
        """
        if session.name in self._open:
            raise ValueError(f"episode {session.name} is open already; run another attempt, slot or group.")
        key = secrets.token_urlsafe(24)
        self._open[session.name] = _Open(session=session, face=face, key=key)
        try:
            yield Address(root=f"http://127.0.0.1:{self._port}/{session.name}", api_key=key)
        finally:
            del self._open[session.name]
            self._ended[session.name] = (key, str(session.ending.reason or "its agent has ended"))
            while len(self._ended) > MOST_REMEMBERED:
                self._ended.popitem(last=False)

    def _answering(self, dialect: Dialect) -> "Endpoint":
        async def answer(request: Request) -> ASGIApp:
            session = self._find(request).session
            try:
                ask = dialect.read(await self._body(request), session.remembered)
            except ApiError as error:
                session.reports.refuse(error)
                raise
            exchange = session.request(ask)
            if ask.is_streamed:
                return EventStream(exchange, dialect, self._renderer)
            await until_done(exchange, request.receive)
            return JSONResponse(dialect.write(exchange, exchange.answers(), self._renderer))

        return self._guarded(answer, dialect)

    def _counting(self, dialect: Messages) -> "Endpoint":
        async def count(request: Request) -> ASGIApp:
            session = self._find(request).session
            return JSONResponse({"input_tokens": session.count_tokens(dialect.read_count(await self._body(request)))})

        return self._guarded(count, dialect)

    async def _models(self, request: Request) -> ASGIApp:
        """The one model that is served; every other name is taken for it."""
        session = self._find(request).session
        model = {"id": session.policy, "object": "model", "created": 0, "owned_by": "rollwright"}
        page = {"has_more": False, "first_id": session.policy, "last_id": session.policy}
        return JSONResponse({"object": "list", "data": [model], **page})

    async def _reward(self, request: Request) -> ASGIApp:
        """`{"reward": 1.0}`, with `components` by name, or with the `response_id` (and `choice`) of one turn."""
        opened = self._find(request)
        body = await self._body(request)
        reward = body.number("reward", -LARGEST_REWARD, LARGEST_REWARD)
        if reward is None:
            raise ApiError(400, "Missing required parameter: 'reward'.", param="reward")
        response_id, name = body.text_or_none("response_id"), body.text_or_none("name")
        components = _numbers(body.inner("components"))
        choice = body.whole("choice", 0, 1 << 16) or 0
        is_over = body.flag("is_over", default=True)
        body.refuse_rest()
        if response_id is None:
            opened.session.reports.outcome(reward, {**components, **({name: reward} if name else {})}, is_over=is_over)
        else:
            value = NamedValue(name=name or "reward", value=reward)
            opened.session.reward_turn(response_id, choice, value, opened.face)
        return JSONResponse({"object": "reward", "reward": reward})

    async def _end(self, request: Request) -> ASGIApp:
        """`{}`, or `{"failure": "why"}`."""
        session = self._find(request).session
        body = await self._body(request)
        failure = body.text_or_none("failure")
        body.refuse_rest()
        session.say_finished(failure)
        return JSONResponse({"object": "end"})

    def _routes(self) -> list[Route]:
        chat, responses, messages = ChatCompletions(), Responses(), Messages()
        # A client of Anthropic adds the version itself, also where it is given the address that has it.
        paths = {
            "v1/chat/completions": self._answering(chat),
            "v1/responses": self._answering(responses),
            "v1/messages": self._answering(messages),
            "v1/v1/messages": self._answering(messages),
            "v1/messages/count_tokens": self._counting(messages),
            "v1/v1/messages/count_tokens": self._counting(messages),
            "reward": self._guarded(self._reward, chat),
            "v1/reward": self._guarded(self._reward, chat),
            "end": self._guarded(self._end, chat),
            "v1/end": self._guarded(self._end, chat),
        }
        routes = [Route(f"/{{episode}}/{path}", endpoint, methods=["POST"]) for path, endpoint in paths.items()]
        models = self._guarded(self._models, chat)
        return [*routes, Route("/{episode}/v1/models", models, methods=["GET"])]

    def _guarded(self, endpoint: "Endpoint", dialect: Dialect) -> "Endpoint":
        """Whatever goes wrong in a request is answered in the API's shape, and harms no other episode."""

        async def guarded(request: Request) -> ASGIApp:
            try:
                return await endpoint(request)
            except ApiError as error:
                return JSONResponse(dialect.refuse(error), status_code=error.status)
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception as error:  # noqa: BLE001 - the loop that turns a failed request into the end of its episode
                opened = self._open.get(request.path_params["episode"])
                if opened is not None:
                    cause = f"the gateway failed at a request: {describe(error)}"
                    opened.session.ending.come(TerminalReason.INFRASTRUCTURE_FAILURE, cause)
                failure = ApiError(500, "The server had an error while processing your request.", code="server_error")
                return JSONResponse(dialect.refuse(failure), status_code=500)

        return guarded

    def _find(self, request: Request) -> _Open:
        """The episode of a request, for who has its key."""
        name = request.path_params["episode"]
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
        opened = self._open.get(name)
        key, reason = (opened.key, "") if opened is not None else self._ended.get(name, ("", ""))
        if not key:
            raise ApiError(404, f"There is no episode {name[:80]!r} here.", code="episode_not_found")
        if not hmac.compare_digest(given.encode(), key.encode()):
            raise ApiError(401, "Incorrect API key provided; each episode has its own.", code="invalid_api_key")
        if opened is None:
            raise ended(name, reason)
        return opened

    async def _body(self, request: Request) -> Fields:
        most, size = self._most_body_bytes, 0
        raw = bytearray()
        async for part in request.stream():
            size += len(part)
            if size <= most:
                raw += part
            elif size > most * HEARD_OUT:
                break  # before that it is read on, so that the client comes to its answer
        if size > most:
            raise ApiError(413, f"The body of your request is larger than {most} bytes.", code="request_too_large")
        return read_body(bytes(raw))


Endpoint = Callable[[Request], Awaitable[ASGIApp]]


def _numbers(fields: Fields | None) -> dict[str, float]:
    if fields is None:
        return {}
    found = {name: fields.number(name, -LARGEST_REWARD, LARGEST_REWARD) for name in fields.given}
    return {name: value for name, value in found.items() if value is not None}


async def _unknown_path(request: Request, error: Exception) -> Response:
    status = 405 if isinstance(error, HTTPException) and error.status_code == 405 else 404
    unknown = ApiError(status, f"Invalid URL ({request.method} {request.url.path[:200]})", code="unknown_url")
    return JSONResponse(refuse_as_openai(unknown), status_code=status)


@asynccontextmanager
async def _served(app: ASGIApp, listening: socket.socket) -> AsyncGenerator[None]:
    """Run a server in this loop; unlike `Server.serve` it leaves the process's signals alone."""
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=CLOSING_S,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listening])
    try:
        async with asyncio.TaskGroup() as group:
            ticking = group.create_task(server.main_loop(), name="gateway")
            yield
            ticking.cancel()
    finally:
        await server.shutdown(sockets=[listening])
