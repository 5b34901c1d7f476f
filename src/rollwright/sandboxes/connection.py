"""Requests to a sandbox and its answers, over a socket that belongs to no event loop.

What comes from inside is taken for hostile: its size is bounded before it is read, and its time by who asks.
"""

import asyncio
import contextlib
import json
import socket
import time

from rollwright.sandboxes.inside.frames import LENGTHS, FrameError, Header, lengths_of, request

__all__ = ["Answer", "ConnectionEndedError", "Connection", "wait_readable"]

READ_BYTES = 2**18


class ConnectionEndedError(Exception):
    """The other side is gone, or what it said is no answer."""


class Answer:
    """A header and what came with it."""

    def __init__(self, header: Header, blob: bytes) -> None:
        self.header = header
        self.blob = blob


class Connection:
    """One request at a time, each followed by its answer."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def put(self, data: bytes) -> None:
        """Send what fits the socket's buffer, before anyone listens.

        Raises:
            ConnectionEndedError: If it does not fit.
        """
        try:
            if self._channel.send(data) == len(data):
                return
        except OSError as error:
            raise ConnectionEndedError(str(error)) from error
        raise ConnectionEndedError(f"{len(data)} bytes do not fit the buffer of a new socket")

    async def ask(self, header: Header, *blobs: bytes, timeout_s: float) -> Answer:
        """Send a request and take its answer.

        Raises:
            ConnectionEndedError: If the other side is gone or talks nonsense.
            TimeoutError: If there is no answer in time.
        """
        deadline = time.monotonic() + timeout_s
        await self._send(memoryview(request(header, *blobs)), deadline)
        return await self.answer(deadline)

    async def answer(self, deadline: float) -> Answer:
        """Take the next answer."""
        try:
            num_header, num_blob = lengths_of(await self._exactly(LENGTHS.size, deadline))
            header = answer_header(await self._exactly(num_header, deadline))
            return Answer(header, await self._exactly(num_blob, deadline))
        except FrameError as error:
            raise ConnectionEndedError(str(error)) from error

    def hang_up(self) -> None:
        """Let both sides read the end."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give back the descriptor."""
        self._channel.close()

    async def _send(self, view: memoryview, deadline: float) -> None:
        while view:
            try:
                view = view[self._channel.send(view) :]
            except BlockingIOError:
                await wait_writable(self._channel.fileno(), deadline)
            except OSError as error:
                raise ConnectionEndedError(str(error)) from error

    async def _exactly(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self._channel.recv(min(size - len(data), READ_BYTES))
            except BlockingIOError:
                await wait_readable(self._channel.fileno(), deadline)
                continue
            except OSError as error:
                raise ConnectionEndedError(str(error)) from error
            if not piece:
                raise ConnectionEndedError("the sandbox hung up")
            data += piece
        return bytes(data)


def answer_header(head: bytes) -> Header:
    """The header of an answer, refused where it is not an object."""
    try:
        header = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise FrameError("a frame's header is not JSON") from error
    if not isinstance(header, dict):
        raise FrameError("a frame's header is not an object")
    return {str(name): value for name, value in header.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - read JSON


async def wait_readable(descriptor: int, deadline: float) -> None:
    """Until there is something to read; TimeoutError where it does not come."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _settle, ready)
    try:
        await _until(ready, deadline)
    finally:
        loop.remove_reader(descriptor)


async def wait_writable(descriptor: int, deadline: float) -> None:
    """Until there is room to write; TimeoutError where there comes none."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(descriptor, _settle, ready)
    try:
        await _until(ready, deadline)
    finally:
        loop.remove_writer(descriptor)


async def _until(ready: asyncio.Future[None], deadline: float) -> None:
    timer = ready.get_loop().call_later(max(0.0, deadline - time.monotonic()), _settle, ready, TimeoutError())
    try:
        await ready
    finally:
        timer.cancel()


def _settle(ready: asyncio.Future[None], error: Exception | None = None) -> None:
    if ready.done():
        return
    if error:
        ready.set_exception(error)
    else:
        ready.set_result(None)
