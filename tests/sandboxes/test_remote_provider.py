"""Sandboxes of another provider behind the same protocol: here one over HTTP on the loopback, with ours behind it."""

import asyncio
import base64
import dataclasses
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import pytest

from rollwright.sandboxes import Sandbox, SandboxError, Sandboxes, SandboxProfile, SandboxResult


class Provider:
    """A server that lends sandboxes: `/take`, `/leave`, and one path for each method."""

    def __init__(self, pool: Sandboxes) -> None:
        self.pool = pool
        self.lent: dict[str, tuple[Sandbox, AsyncExitStack]] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readline()).split()[1].decode()
        size = 0
        while (line := await reader.readline()).strip():
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        asked = json.loads(await reader.readexactly(size))
        answer = json.dumps(await self.answer(path.strip("/"), asked)).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(answer) + answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def answer(self, method: str, asked: dict) -> dict:
        if method == "take":
            stack = AsyncExitStack()
            self.lent[str(len(self.lent))] = (await stack.enter_async_context(self.pool.take()), stack)
            return {"sandbox": str(len(self.lent) - 1)}
        sandbox, stack = self.lent[asked.pop("sandbox")]
        match method:
            case "leave":
                await stack.aclose()
                return {}
            case "python":
                return dataclasses.asdict(await sandbox.python(**asked))
            case "shell" | "program":
                asked["stdin"] = base64.b64decode(asked["stdin"])
                call = sandbox.shell if method == "shell" else sandbox.program
                return dataclasses.asdict(await call(**asked))
            case "write":
                await sandbox.write(asked["path"], base64.b64decode(asked["data"]))
                return {}
            case "read":
                data = await sandbox.read(**asked)
                return {"data": None if data is None else base64.b64encode(data).decode()}
            case _:
                return {"files": await sandbox.files()}


class RemoteSandbox:
    """One that is lent."""

    def __init__(self, port: int, name: str) -> None:
        self.port = port
        self.name = name

    async def python(self, code: str, *, wall_s: float | None = None) -> SandboxResult:
        return SandboxResult(**await self.ask("python", code=code, wall_s=wall_s))

    async def program(
        self, code: str, *, stdin: bytes = b"", argv: Sequence[str] = (), wall_s: float | None = None
    ) -> SandboxResult:
        sent = base64.b64encode(stdin).decode()
        return SandboxResult(**await self.ask("program", code=code, stdin=sent, argv=list(argv), wall_s=wall_s))

    async def shell(self, command: str, *, stdin: bytes = b"", wall_s: float | None = None) -> SandboxResult:
        sent = base64.b64encode(stdin).decode()
        return SandboxResult(**await self.ask("shell", command=command, stdin=sent, wall_s=wall_s))

    async def write(self, path: str, data: bytes) -> None:
        await self.ask("write", path=path, data=base64.b64encode(data).decode())

    async def read(self, path: str, *, max_bytes: int = 2**20) -> bytes | None:
        data = (await self.ask("read", path=path, max_bytes=max_bytes))["data"]
        return None if data is None else base64.b64decode(data)

    async def files(self) -> tuple[str, ...]:
        return tuple((await self.ask("files"))["files"])

    async def ask(self, method: str, **asked: object) -> dict:
        return await ask(self.port, method, asked | {"sandbox": self.name})


class RemoteSandboxes:
    """The provider as this side sees it."""

    def __init__(self, profile: SandboxProfile, profile_id: str, port: int) -> None:
        self.profile = profile
        self.profile_id = profile_id
        self.port = port
        self.max_open = 8

    def take(self) -> AbstractAsyncContextManager[Sandbox]:
        return self.taken()

    @asynccontextmanager
    async def taken(self) -> AsyncGenerator[Sandbox]:
        name = (await ask(self.port, "take", {}))["sandbox"]
        try:
            yield RemoteSandbox(self.port, name)
        finally:
            await ask(self.port, "leave", {"sandbox": name})

    def close(self) -> None:
        """Nothing is held on this side."""


async def ask(port: int, method: str, asked: dict) -> dict:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        raise SandboxError(f"the provider of sandboxes does not answer: {error}") from error
    body = json.dumps(asked).encode()
    writer.write(b"POST /%s HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (method.encode(), len(body)) + body)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return json.loads(answer.partition(b"\r\n\r\n")[2])


async def use(sandboxes: Sandboxes) -> list[object]:
    async with sandboxes.take() as sandbox:
        await sandbox.write("a/b.txt", b"\0\xff")
        await sandbox.python("x = 20")
        results = [
            await sandbox.python("x + 1"),
            await sandbox.program("import sys; print(input(), sys.argv[1:])", stdin=b"in", argv=["c"]),
            await sandbox.shell("cat; exit 4", stdin=b"in"),
            await sandbox.shell("sleep 300", wall_s=0.2),
        ]
        seen: list[object] = [(result.status, result.exit_code, result.stdout, result.stderr) for result in results]
        return [*seen, await sandbox.read("a/b.txt"), await sandbox.read("nowhere"), await sandbox.files()]


@pytest.mark.row("S472")
def test_a_remote_provider_behind_the_protocol_gives_the_same_results(walled: Sandboxes) -> None:
    async def run() -> tuple[list[object], list[object]]:
        server = await asyncio.start_server(Provider(walled).serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            remote: Sandboxes = RemoteSandboxes(walled.profile, f"remote-{walled.profile_id}", port)
            seen = await use(remote)
        with pytest.raises(SandboxError, match="provider of sandboxes does not answer"):
            await use(remote)
        return await use(walled), seen

    local, remote = asyncio.run(run())
    assert remote == local
