"""The connection to a service: lines out from any thread, answers in by one reader thread to whoever asked.

caller ──ask──► socket ──► service            it waits on the socket alone; its end is the end of every ask
caller ◄──queue of the caller's loop◄── reader ◄── socket
"""

import asyncio
import itertools
import json
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rollwright.engines.errors import EngineError, EngineLostError

__all__ = ["Answer", "Link", "Pending"]

Answer = Mapping[str, Any]
"""A line of the service."""


@dataclass(slots=True, kw_only=True, eq=False)
class Pending:
    """What is still to come for one ask; read on the loop that asked."""

    number: int
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Answer | EngineLostError] = field(default_factory=asyncio.Queue[Answer | EngineLostError])

    async def next(self) -> Answer:
        """The next line.

        Raises:
            EngineError: where the service refused what was asked.
            EngineLostError: when the service has ended.
        """
        answer = await self.queue.get()
        if isinstance(answer, EngineLostError):
            raise answer
        if "refused" in answer:
            raise EngineError(str(answer["refused"]))
        if "lost" in answer:
            raise EngineLostError(str(answer["lost"]))
        return answer


class Link:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        """Take over a connection that has been let in, and start its reader."""
        self._connection = connection
        self._numbers = itertools.count(1)
        self._pending: dict[int, Pending] = {}
        self._lock = threading.Lock()
        self._death: str | None = None
        self._reader = threading.Thread(target=self._read, name="service", daemon=True)
        self._reader.start()

    @property
    def death(self) -> str | None:
        """Why it is over; None while it lasts."""
        return self._death

    def ask(self, what: str, **told: object) -> Pending:
        """Ask for something; `forget` it when nothing more is to come.

        Raises:
            EngineLostError: when the service has ended.
        """
        pending = Pending(number=next(self._numbers), loop=asyncio.get_running_loop())
        line = json.dumps({"do": what, "ask": pending.number, **told}, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            if self._death is not None:
                raise EngineLostError(self._death)
            self._pending[pending.number] = pending
            try:
                self._connection.sendall(line)
            except OSError:
                del self._pending[pending.number]
                raise EngineLostError("the service has ended") from None
        return pending

    def forget(self, pending: Pending) -> None:
        """Nobody waits for it any longer."""
        with self._lock:
            self._pending.pop(pending.number, None)

    async def answer(self, what: str, **told: object) -> Answer:
        """Ask, and wait for the one answer."""
        pending = self.ask(what, **told)
        try:
            return await pending.next()
        finally:
            self.forget(pending)

    def end(self, sentence: str) -> None:
        """Close the connection; whoever waits is told."""
        with self._lock:
            self._death = self._death or sentence
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._reader.join()
        self._connection.close()

    def _read(self) -> None:
        lost = "the service has ended"
        try:
            with self._connection.makefile("rb") as lines:
                for line in lines:
                    answer = json.loads(line)
                    if "ask" in answer:
                        self._give(answer)
                    elif "lost" in answer:
                        lost = str(answer["lost"])
        except (OSError, ValueError) as error:
            lost = f"the connection to the service broke: {error}"
        with self._lock:
            self._death = self._death or lost
            left = list(self._pending.values())
            self._pending.clear()
        for pending in left:
            _put(pending, EngineLostError(self._death))

    def _give(self, answer: Answer) -> None:
        with self._lock:
            pending = self._pending.get(int(answer["ask"]))
        if pending is not None:
            _put(pending, answer)


def _put(pending: Pending, answer: Answer | EngineLostError) -> None:
    try:
        pending.loop.call_soon_threadsafe(pending.queue.put_nowait, answer)
    except RuntimeError:
        if not pending.loop.is_closed():
            raise
