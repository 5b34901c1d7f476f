"""The sandbox of one episode: turns calls into requests, and a lost inside into a result that says so."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

from rollwright.sandboxes.connection import Answer, Connection, ConnectionEndedError
from rollwright.sandboxes.errors import SandboxError, SandboxFileError
from rollwright.sandboxes.inside.frames import Header
from rollwright.sandboxes.results import lost_result, result_of
from rollwright.sandboxes.sandbox import SandboxProfile, SandboxResult, SandboxStatus
from rollwright.sandboxes.starting import Start

__all__ = ["EpisodeSandbox", "Inside"]

GRACE_S = 0.4
"""After a call's limit, until its sandbox is ended from outside."""
FILE_S = 30.0


@dataclass(frozen=True, slots=True)
class Inside:
    """A sandbox that runs."""

    start: Start
    connection: Connection
    slot: int
    folder: str
    """Of its files on this machine, where it has no file system of its own; else empty."""


class EpisodeSandbox:
    """One episode's calls, one after another."""

    def __init__(
        self,
        profile: SandboxProfile,
        inside: Inside,
        *,
        open_another: Callable[[], Coroutine[None, None, Inside]],
        end: Callable[[Inside], Coroutine[None, None, None]],
        check: Callable[[], None],
    ) -> None:
        self._profile = profile
        self._inside: Inside | None = inside
        self._open_another = open_another
        self._end = end
        self._check = check
        self._turn = asyncio.Lock()
        self._over = ""

    async def python(self, code: str, *, wall_s: float | None = None) -> SandboxResult:
        """See Sandbox."""
        return await self._call({"op": "python"}, _encoded(code), wall_s=wall_s)

    async def program(
        self, code: str, *, stdin: bytes = b"", argv: Sequence[str] = (), wall_s: float | None = None
    ) -> SandboxResult:
        """See Sandbox."""
        data = _encoded(code)
        header: Header = {"op": "program", "code_bytes": len(data), "argv": list(argv)}
        return await self._call(header, data, stdin, wall_s=wall_s)

    async def shell(self, command: str, *, stdin: bytes = b"", wall_s: float | None = None) -> SandboxResult:
        """See Sandbox."""
        data = _encoded(command)
        return await self._call({"op": "shell", "code_bytes": len(data)}, data, stdin, wall_s=wall_s)

    async def write(self, path: str, data: bytes) -> None:
        """See Sandbox."""
        await self._ask_of_files({"op": "write", "path": path}, data)

    async def read(self, path: str, *, max_bytes: int = 2**20) -> bytes | None:
        """See Sandbox."""
        answer = await self._ask_of_files({"op": "read", "path": path, "most": max_bytes})
        return answer.blob if answer.header.get("is_there") is True else None

    async def files(self) -> tuple[str, ...]:
        """See Sandbox."""
        found = (await self._ask_of_files({"op": "files"})).header.get("files")
        if not isinstance(found, list):
            raise SandboxError("the sandbox listed no files")
        return tuple(map(str, found))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - read JSON

    async def end(self) -> None:
        """End all that runs in it; it takes no calls after that."""
        self._over = self._over or "its episode is over"
        inside, self._inside = self._inside, None
        if inside:
            await self._end(inside)

    async def _call(self, header: Header, *blobs: bytes, wall_s: float | None) -> SandboxResult:
        limits = self._profile.limits
        limit_s = limits.wall_s if wall_s is None else wall_s
        if not limit_s > 0:
            raise ValueError(f"wall_s is {limit_s}; it must be above 0")
        header["wall_s"] = limit_s
        async with self._turn:
            inside = await self._opened()
            began = time.monotonic()
            try:
                answer = await self._asked(inside, header, *blobs, timeout_s=limit_s + GRACE_S)
                return result_of(answer, limits, limit_s)
            except (TimeoutError, ConnectionEndedError) as error:
                self._check()
                await self._lose(inside)
                status: SandboxStatus = "timeout" if isinstance(error, TimeoutError) else "failed"
                return lost_result(status, limits, limit_s, time.monotonic() - began)

    async def _ask_of_files(self, header: Header, *blobs: bytes) -> Answer:
        async with self._turn:
            inside = await self._opened()
            try:
                answer = await self._asked(inside, header, *blobs, timeout_s=FILE_S)
            except (TimeoutError, ConnectionEndedError) as error:
                await self._lose(inside)
                self._over = f"it did not answer a request for its files: {error}"
                raise SandboxError(f"the sandbox is over: {self._over}") from error
        if "refused" in answer.header:
            raise SandboxFileError(f"the sandbox's file {header.get('path')!r}: {answer.header['refused']}")
        return answer

    async def _opened(self) -> Inside:
        if self._over:
            raise SandboxError(f"the sandbox is over: {self._over}")
        if self._inside is None:
            self._inside = await self._open_another()
        return self._inside

    async def _asked(self, inside: Inside, header: Header, *blobs: bytes, timeout_s: float) -> Answer:
        try:
            answer = await inside.connection.ask(header, *blobs, timeout_s=timeout_s)
        except asyncio.CancelledError:
            self._over = "a call was cancelled while it ran"
            await self._lose(inside)
            raise
        if "broken" in answer.header:
            self._over = f"its fork server broke: {answer.header['broken']}"
            await self._lose(inside)
            raise SandboxError(f"the sandbox is over: {self._over}")
        return answer

    async def _lose(self, inside: Inside) -> None:
        self._inside = None
        await self._end(inside)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
