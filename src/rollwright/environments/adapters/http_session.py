"""A small client for environment servers: JSON over HTTP with the session's cookies, and a websocket of JSON texts.

Every wait ends at a deadline, and every fault of the other side (down, slow, cut off, no JSON) is an
`EnvironmentBrokenError`: it is no doing of the policy.
"""

import asyncio
import base64
import json
import os
import ssl
import struct
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from rollwright.environments.errors import EnvironmentSetupError
from rollwright.record import EnvironmentBrokenError
from rollwright.tasks import Json

__all__ = ["HttpAnswer", "HttpSession", "JsonSocket", "ServerAddress", "open_socket"]

_MAX_BYTES = 16 * 2**20
_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a server is, and how long it may take."""

    host: str
    port: int
    path: str = ""
    is_secure: bool = False
    timeout_s: float = 30.0
    """Of one exchange."""

    @classmethod
    def of(cls, url: str, timeout_s: float = 30.0) -> "ServerAddress":
        """Read `http://host:port/path` (ws, https and wss as well).

        Raises:
            EnvironmentSetupError: for another form.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname or timeout_s <= 0:
            raise EnvironmentSetupError(f"{url!r} names no server; write http://host:port, and a timeout_s above 0")
        is_secure = parts.scheme in ("https", "wss")
        port = parts.port or (443 if is_secure else 80)
        return cls(
            host=parts.hostname, port=port, path=parts.path.rstrip("/"), is_secure=is_secure, timeout_s=timeout_s
        )

    def __str__(self) -> str:
        return f"{self.host}:{self.port}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What came back."""

    status: int
    text: str

    def json(self, where: str) -> Mapping[str, Json]:
        """The JSON object of a good answer.

        Raises:
            EnvironmentBrokenError: for another status, or no object.
        """
        if self.status >= 400:
            raise EnvironmentBrokenError(f"{where} answers {self.status}: {self.text[:200]}")
        return _object(self.text, where)


class HttpSession:
    """Requests of one episode; cookies that the server sets are kept for the next one."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._cookies: dict[str, str] = {}

    async def post(self, path: str, body: Json) -> HttpAnswer:
        """Send JSON."""
        return await self._exchange("POST", path, json.dumps(body).encode())

    async def get(self, path: str) -> HttpAnswer:
        """Ask."""
        return await self._exchange("GET", path, b"")

    async def _exchange(self, method: str, path: str, body: bytes) -> HttpAnswer:
        lines = [
            f"{method} {self._address.path}{path} HTTP/1.1",
            f"Host: {self._address.host}:{self._address.port}",
            "Connection: close",
            "Accept: application/json",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        if self._cookies:
            lines.append("Cookie: " + "; ".join(f"{name}={value}" for name, value in self._cookies.items()))
        async with _connected(self._address, f"{method} {path}") as (reader, writer):
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            await writer.drain()
            status, headers = await _head(reader)
            raw = await _body(reader, headers)
        for name, value in headers:
            if name == "set-cookie":
                key, _, rest = value.partition("=")
                self._cookies[key.strip()] = rest.partition(";")[0]
        return HttpAnswer(status=status, text=raw.decode("utf-8", "replace"))


class JsonSocket:
    """A websocket that carries JSON objects, one a message."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: ServerAddress) -> None:
        self._reader = reader
        self._writer = writer
        self._address = address

    async def ask(self, message: Mapping[str, Json]) -> Mapping[str, Json]:
        """Send a message and wait for the next one."""
        try:
            async with asyncio.timeout(self._address.timeout_s):
                await self.tell(message)
                return _object((await self._next()).decode("utf-8", "replace"), str(self._address))
        except (OSError, EOFError, TimeoutError, struct.error) as error:
            raise EnvironmentBrokenError(f"{self._address} does not answer: {type(error).__name__}: {error}") from error

    async def tell(self, message: Mapping[str, Json]) -> None:
        """Send a message."""
        await self._send(_TEXT, json.dumps(message).encode())

    async def _next(self) -> bytes:
        parts = bytearray()
        while True:
            first, second = await self._reader.readexactly(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack("!H", await self._reader.readexactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", await self._reader.readexactly(8))
            if size + len(parts) > _MAX_BYTES:
                raise EOFError("the message is too long")
            data = await self._reader.readexactly(size)
            match first & 0x0F:
                case 8:
                    raise EOFError("the server closed the socket")
                case 9:
                    await self._send(_PONG, data)
                case 10:
                    continue
                case _:
                    parts += data
                    if first & 0x80:
                        return bytes(parts)

    async def _send(self, kind: int, data: bytes) -> None:
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x80 | kind, 0x80 | size)
        elif size < 2**16:
            head = struct.pack("!BBH", 0x80 | kind, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | kind, 0x80 | 127, size)
        mask = os.urandom(4)
        pattern = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(pattern, "big")).to_bytes(size, "big")
        self._writer.write(head + mask + masked)
        await self._writer.drain()


@asynccontextmanager
async def open_socket(address: ServerAddress, path: str) -> AsyncGenerator[JsonSocket]:
    """Open a websocket, and close it again.

    Raises:
        EnvironmentBrokenError: where the server is down or speaks no websocket.
    """
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET {address.path}{path} HTTP/1.1",
        f"Host: {address.host}:{address.port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
    ]
    async with _streams(address) as (reader, writer):
        try:
            async with asyncio.timeout(address.timeout_s):
                writer.write("\r\n".join([*lines, "", ""]).encode())
                await writer.drain()
                status, _ = await _head(reader)
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            raise EnvironmentBrokenError(f"{address} opens no websocket: {type(error).__name__}: {error}") from error
        if status != 101:
            raise EnvironmentBrokenError(f"{address}{path} opens no websocket: it answers {status}")
        yield JsonSocket(reader, writer, address)


@asynccontextmanager
async def _connected(
    address: ServerAddress, what: str
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection for one exchange, under its deadline."""
    try:
        async with asyncio.timeout(address.timeout_s), _streams(address) as streams:
            yield streams
    except (OSError, EOFError, ValueError, TimeoutError) as error:
        raise EnvironmentBrokenError(f"{address} does not answer {what}: {type(error).__name__}: {error}") from error


@asynccontextmanager
async def _streams(address: ServerAddress) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    context = ssl.create_default_context() if address.is_secure else None
    try:
        async with asyncio.timeout(address.timeout_s):
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    except (OSError, TimeoutError) as error:
        raise EnvironmentBrokenError(f"{address} is not there: {type(error).__name__}: {error}") from error
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                await writer.wait_closed()


async def _head(reader: asyncio.StreamReader) -> tuple[int, list[tuple[str, str]]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]
    return int(lines[0].split()[1]), headers


async def _body(reader: asyncio.StreamReader, headers: list[tuple[str, str]]) -> bytes:
    named = dict(headers)
    if "chunked" in named.get("transfer-encoding", "").lower():
        return await _chunks(reader)
    if "content-length" in named:
        return await reader.readexactly(min(int(named["content-length"]), _MAX_BYTES))
    return await reader.read(_MAX_BYTES)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        if size + len(found) > _MAX_BYTES:
            raise ValueError("the answer is too long")
        found += await reader.readexactly(size)
        await reader.readexactly(2)
    return bytes(found)


def _object(text: str, where: str) -> Mapping[str, Json]:
    try:
        loaded: object = json.loads(text)
    except ValueError as error:
        raise EnvironmentBrokenError(f"{where} answers no JSON: {text[:200]!r}") from error
    if not isinstance(loaded, dict):
        raise EnvironmentBrokenError(f"{where} answers no JSON object: {text[:200]!r}")
    return cast("Mapping[str, Json]", loaded)
