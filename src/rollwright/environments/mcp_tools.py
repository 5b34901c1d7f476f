"""Tools of a server that speaks the Model Context Protocol, through the `mcp` package (the extra `mcp`).

    episode ──call──► its thread of connections ──► keeper task of one connection ──► server (a process, or over HTTP)

A connection is entered and left by one task, its keeper. All keepers live in one thread with an event loop of its own,
so that a connection may be shared by episodes of several event loops, and a server that blocks holds up nothing else.
"""

import asyncio
import os
import shutil
import sys
import threading
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from rollwright.environments.errors import EnvironmentSetupError, ToolError
from rollwright.record import EnvironmentBrokenError, canonical_json
from rollwright.tasks import Json

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["McpConnections", "McpConnection", "McpServer", "McpTool"]

_OPEN_S = 30.0
"""How long a server may take to start and to say which tools it has."""
_CLOSE_S = 10.0
_KEEPER = Path(__file__).with_name("mcp_keeper.py")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """How a server is reached: a command that is started, or the address of one that listens."""

    command: tuple[str, ...] = ()
    """Speaks over its standard streams (stdio). On Linux all that it starts ends with it, and with this process."""
    url: str = ""
    """Of streamable HTTP, such as `http://127.0.0.1:8000/mcp`."""

    def __post_init__(self) -> None:
        """Refuse a server that is reached in no way or in two."""
        if bool(self.command) == bool(self.url):
            raise EnvironmentSetupError(
                f"an MCP server is reached by a command or a url; command={list(self.command)}, url={self.url!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    """A tool as its server describes it."""

    name: str
    description: str
    parameters: Mapping[str, Json]

    def text(self) -> str:
        """The definition that chat templates take, as canonical JSON."""
        function: Json = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return canonical_json({"type": "function", "function": function})


class McpConnection:
    """One open connection. It ends when its server does; every later call is the environment's fault."""

    def __init__(self, client: "Client", tools: tuple[McpTool, ...]) -> None:
        self._client = client
        self._tools = tools

    @property
    def tools(self) -> tuple[McpTool, ...]:
        """What the server offered when it was opened."""
        return self._tools

    async def call(self, tool: str, arguments: Mapping[str, Json], *, timeout_s: float) -> str:
        """Call a tool, in the thread of connections.

        Raises:
            ToolError: for what the tool says was wrong with the call.
            TimeoutError: where it did not answer in time.
            EnvironmentBrokenError: where the server is gone or speaks wrongly.
        """
        from mcp import MCPError
        from mcp.types import TextContent

        try:
            async with asyncio.timeout(timeout_s):
                result = await self._client.call_tool(tool, dict(arguments))
        except TimeoutError:
            raise
        except MCPError as error:
            if error.error.code == _INVALID_PARAMS:
                raise ToolError(error.error.message) from error
            raise EnvironmentBrokenError(f"the MCP server failed at {tool}: {error.error.message}") from error
        except Exception as error:  # the transports raise errors of several libraries
            raise EnvironmentBrokenError(f"the MCP server is gone: {type(error).__name__}: {error}") from error
        text = "\n".join(c.text if isinstance(c, TextContent) else f"[{c.type}]" for c in result.content)
        if result.is_error:
            raise ToolError(text or "the tool failed without a word")
        return text


_INVALID_PARAMS = -32602


class McpConnections:
    """The thread in which connections live; started when the first is opened, ended by `close`."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._shared: tuple[McpConnection, asyncio.Event, asyncio.Task[None]] | None = None

    def discover(self) -> tuple[McpTool, ...]:
        """The tools of the server, over a connection that is opened for the purpose.

        Raises:
            EnvironmentSetupError: where the server does not start or answer.
        """

        async def look() -> tuple[McpTool, ...]:
            async with self._connected() as connection:
                return connection.tools

        try:
            return asyncio.run_coroutine_threadsafe(look(), self._running()).result(_OPEN_S + _CLOSE_S)
        except Exception as error:
            raise EnvironmentSetupError(f"{self._server} cannot be used: {_cause(error)}") from error

    @asynccontextmanager
    async def opened(self, kind: Literal["episode", "shared"]) -> AsyncGenerator[McpConnection]:
        """A connection for an episode: its own, or the one that all share. To be used from any event loop.

        Raises:
            EnvironmentBrokenError: where the server does not start or answer.
        """
        if kind == "shared":
            yield await self.run(self._take_shared())
            return
        connection, leave, keeper = await self.run(self._start())
        try:
            yield connection
        finally:
            await asyncio.shield(self.run(_end(leave, keeper)))

    async def run(self, work: Coroutine[object, object, T]) -> T:
        """Do something in the thread of connections; cancelling the wait cancels the work."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running()))

    def close(self) -> None:
        """End the shared connection and the thread. May be called twice."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        if self._shared is not None:
            _, leave, keeper = self._shared
            self._shared = None
            asyncio.run_coroutine_threadsafe(_end(leave, keeper), loop).result(_CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CLOSE_S)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="connections to MCP servers", daemon=True
                )
                self._thread.start()
            return self._loop

    async def _take_shared(self) -> McpConnection:
        """The shared connection; opened anew where its server has ended."""
        if self._shared is None or self._shared[2].done():
            self._shared = await self._start()
        return self._shared[0]

    async def _start(self) -> tuple[McpConnection, asyncio.Event, asyncio.Task[None]]:
        """Open a connection in a keeper task of its own, which leaves it when it is told to."""
        ready: asyncio.Future[McpConnection] = asyncio.get_running_loop().create_future()
        leave = asyncio.Event()

        async def keep() -> None:
            try:
                async with self._connected() as connection:
                    if not ready.cancelled():
                        ready.set_result(connection)
                        await leave.wait()
            except Exception as error:  # noqa: BLE001 - told to whoever waits for the connection
                if not ready.done():
                    ready.set_exception(EnvironmentBrokenError(f"no connection to the MCP server: {_cause(error)}"))

        keeper = asyncio.get_running_loop().create_task(keep(), name="an MCP connection")
        try:
            return await ready, leave, keeper
        except asyncio.CancelledError:
            leave.set()
            raise

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[McpConnection]:
        from mcp import Client, StdioServerParameters, stdio_client

        server = self._server
        if server.command:
            command = _kept(server.command)
            parameters = StdioServerParameters(command=command[0], args=list(command[1:]))
            client = Client(stdio_client(parameters))
        else:
            client = Client(server.url)
        timeout = asyncio.timeout(_OPEN_S)
        async with timeout, client:
            tools = await _tools_of(client)
            timeout.reschedule(None)
            yield McpConnection(client, tools)


def _kept(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command under a keeper, so that it outlives neither its connection nor this process; on Linux alone."""
    if sys.platform != "linux":
        return command
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(f"no program {command[0]!r} that can be run; install it, or give its path")
    return (sys.executable, "-I", "-S", str(_KEEPER), str(os.getpid()), *command)


async def _tools_of(client: "Client") -> tuple[McpTool, ...]:
    """All pages of the server's list, in its order."""
    found: list[McpTool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            parameters = cast("Mapping[str, Json]", dict(tool.input_schema))
            found.append(McpTool(name=tool.name, description=tool.description or tool.name, parameters=parameters))
        cursor = page.next_cursor
        if not cursor:
            return tuple(found)


async def _end(leave: asyncio.Event, keeper: asyncio.Task[None]) -> None:
    leave.set()
    await asyncio.wait({keeper}, timeout=_CLOSE_S)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped, then end what is left in it."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left: Sequence[asyncio.Task[object]] = tuple(asyncio.all_tasks(loop))
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_CLOSE_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _cause(error: BaseException) -> str:
    """What happened, where the library wraps it into groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, TimeoutError):
        return f"it did not start and list its tools within {_OPEN_S:g} s"
    return f"{type(error).__name__}: {error}"
