"""Small servers of our own that speak the protocols of OpenEnv and NeMo-Gym as far as an episode needs them.

They stand in for the packages, which cannot be installed beside this project; they listen on the loopback alone.
"""

import asyncio
import base64
import hashlib
import json
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

__all__ = ["GymServer", "OpenServer", "serving"]


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict:
        return json.loads(self.body or b"{}")


Answer = tuple[int, str, dict[str, str]]
Handle = Callable[[Request], Awaitable[Answer]]


@asynccontextmanager
async def serving(server: "OpenServer | GymServer", *, port: int = 0) -> AsyncGenerator[str]:
    """Its address, while it runs."""
    tasks: set[asyncio.Task] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await server.connected(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    running = await asyncio.start_server(handle, "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    finally:
        running.close()
        left = (await asyncio.wait(tasks, timeout=0.2))[1] if tasks else set()
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> Request:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = lines[0].split()
    headers = {n.strip().lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path, headers, body)


async def write_answer(writer: asyncio.StreamWriter, answer: Answer, *, in_chunks: bool = False) -> None:
    status, text, headers = answer
    raw = text.encode()
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    if in_chunks:
        half = len(raw) // 2 or 1
        lines.append("Transfer-Encoding: chunked")
        parts = [raw[:half], raw[half:]]
        raw = b"".join(f"{len(p):x}\r\n".encode() + p + b"\r\n" for p in parts if p) + b"0\r\n\r\n"
    else:
        lines.append(f"Content-Length: {len(raw)}")
    writer.write("\r\n".join([*lines, "", ""]).encode() + raw)
    await writer.drain()
    writer.close()


@dataclass
class OpenServer:
    """Guess a number that the seed decides: an OpenEnv environment with one field in its action."""

    fault: str = ""
    """`silent`, `cut`, `garbage`, `factory`: what it does wrong at a step."""
    closed: int = 0
    opened: int = 0
    state: dict = field(default_factory=dict)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        if request.headers.get("upgrade") == "websocket":
            await self._socket(request, reader, writer)
            return
        await write_answer(writer, self._plain(request))

    def _plain(self, request: Request) -> Answer:
        match request.path:
            case "/schema":
                action = {"title": "GuessAction", "required": ["guess"], "properties": {"guess": {"type": "string"}}}
                return 200, json.dumps({"action": action, "observation": {}, "state": {}}), {}
            case "/reset":
                return 200, json.dumps(self._reset(request.json)), {}
            case "/step":
                if "guess" not in request.json["action"]:
                    return 422, json.dumps({"detail": "guess is missing"}), {}
                return 200, json.dumps(self._step(request.json["action"])), {}
            case "/state":
                return 200, json.dumps({**self.state, "step_count": self.state["steps"]}), {}
            case _:
                return 404, "{}", {}

    def _reset(self, given: dict) -> dict:
        self.opened += 1
        self.state = {"secret": given["seed"] % 10, "steps": 0}
        return {"observation": {"text": "guess a digit"}, "reward": None, "done": False}

    def _step(self, action: dict) -> dict:
        self.state["steps"] += 1
        won = str(action["guess"]).strip() == str(self.state["secret"])
        return {"observation": {"text": "yes" if won else "no"}, "reward": float(won), "done": won}

    async def _socket(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        head = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        writer.write("\r\n".join([*head, f"Sec-WebSocket-Accept: {accept}", "", ""]).encode())
        try:
            while (message := await read_frame(reader)) is not None:
                if message["type"] == "close":
                    self.closed += 1
                    break
                writer.write(frame(9, b"still there?"))
                if message["type"] == "step" and self.fault:
                    if not await self._misbehave(writer):
                        break
                    continue
                raw = json.dumps(self._message(message)).encode()
                writer.write(frame(1, raw[:5], is_last=False) + frame(0, raw[5:]))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    def _message(self, message: dict) -> dict:
        match message["type"]:
            case "reset":
                return {"type": "observation", "data": self._reset(message["data"])}
            case "step" if "guess" not in message["data"]:
                return {"type": "error", "data": {"code": "VALIDATION_ERROR", "message": "guess is missing"}}
            case "step":
                return {"type": "observation", "data": self._step(message["data"])}
            case _:
                return {"type": "state", "data": self.state}

    async def _misbehave(self, writer: asyncio.StreamWriter) -> bool:
        match self.fault:
            case "cut":
                return False
            case "garbage":
                writer.write(frame(1, b"[1]"))
            case "factory":
                writer.write(frame(1, b'{"type": "error", "data": {"code": "FACTORY_ERROR", "message": "no room"}}'))
            case _:
                pass
        await writer.drain()
        return True


@dataclass
class GymServer:
    """A resource server with sessions: a till that is to hold a sum, and a verifier that looks at it."""

    sessions: dict[str, int] = field(default_factory=dict)
    verified: list[dict] = field(default_factory=list)
    masks: bool = False

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        answer = self._answer(request)
        await write_answer(writer, answer, in_chunks=True)

    def _answer(self, request: Request) -> Answer:
        if request.path == "/seed_session":
            name = f"s{len(self.sessions)}"
            self.sessions[name] = 0
            return 200, "{}", {"Set-Cookie": f"session={name}; Path=/; HttpOnly"}
        name = request.headers.get("cookie", "").partition("session=")[2]
        given = request.json
        match request.path:
            case "/put":
                if not isinstance(given.get("coins"), int):
                    return 422, "coins must be a number", {}
                self.sessions[name] += given["coins"]
                return 200, f"{self.sessions[name]} in the till", {}
            case "/break":
                return 500, "the till is broken", {}
            case "/verify":
                self.verified.append(given)
                kinds = [item["type"] for item in given["response"]["output"]]
                parts = {"sum": float(self.sessions[name] == given["sum"]), "said": float(kinds[-1:] == ["message"])}
                reward = {"reward": 0.75 * parts["sum"] + 0.25 * parts["said"], "reward_components": parts}
                return 200, json.dumps({**given, **reward, "mask_sample": self.masks, "failure_reason": "lost"}), {}
            case _:
                return 404, "no such tool", {}


def frame(kind: int, data: bytes, *, is_last: bool = True) -> bytes:
    first = (0x80 if is_last else 0) | kind
    size = struct.pack("!B", len(data)) if len(data) < 126 else struct.pack("!BH", 126, len(data))
    return bytes([first]) + size + data


async def read_frame(reader: asyncio.StreamReader) -> dict | None:
    """The next text of a client, unmasked; None where it closes."""
    while True:
        first, second = await reader.readexactly(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", await reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await reader.readexactly(8))
        assert second & 0x80, "a client masks"
        mask = await reader.readexactly(4)
        data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(await reader.readexactly(size)))
        if first & 0x0F == 8:
            return None
        if first & 0x0F == 1:
            return json.loads(data)
