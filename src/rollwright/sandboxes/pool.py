"""The pool: idle sandboxes kept ready, one given to each episode, none given twice.

It holds no event loop's state: sandboxes are started by orders that nothing waits for, and say themselves when they are
ready. So episodes of several loops, one after another or in several threads, take from one pool.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from rollwright.sandboxes.connection import Connection, ConnectionEndedError, wait_readable
from rollwright.sandboxes.episode_sandbox import EpisodeSandbox, Inside
from rollwright.sandboxes.errors import SandboxError
from rollwright.sandboxes.gate import Gate
from rollwright.sandboxes.inside.frames import Header, request
from rollwright.sandboxes.sandbox import Sandbox, SandboxProfile
from rollwright.sandboxes.starting import StarterProcess

__all__ = ["Pool", "Recipe"]

READY_S = 60.0
"""For a sandbox to start and to import what it is to have imported, on a machine that does much else."""
GONE_S = 10.0
COMPLAINT_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class Recipe:
    """How every sandbox of the pool begins."""

    payload: bytes
    request: Header
    filtering: bytes
    """A filter that the sandbox puts on itself; empty where its starter does."""
    has_folder: bool
    """Whether it needs a folder of this machine for its files."""


class Pool:
    """See Sandboxes."""

    def __init__(
        self, profile: SandboxProfile, profile_id: str, starter: StarterProcess, recipe: Recipe, sizes: tuple[int, int]
    ) -> None:
        self._profile = profile
        self._profile_id = profile_id
        self._starter = starter
        self._recipe = recipe
        self._num_warm, self._max_open = sizes
        self._gate = Gate(self._max_open)
        self._lock = threading.Lock()
        self._idle: deque[Inside] = deque()
        self._used: set[int] = set()
        self._all: dict[int, Inside] = {}
        self._is_closed = False

    @property
    def profile(self) -> SandboxProfile:
        """See Sandboxes."""
        return self._profile

    @property
    def profile_id(self) -> str:
        """See Sandboxes."""
        return self._profile_id

    @property
    def max_open(self) -> int:
        """See Sandboxes."""
        return self._max_open

    def take(self) -> AbstractAsyncContextManager[Sandbox]:
        """See Sandboxes."""
        return self._taken()

    def warm(self) -> None:
        """Order as many sandboxes as are to stand idle."""
        while True:
            with self._lock:
                if self._is_closed or len(self._idle) >= self._num_warm:
                    return
            inside = self._begin()
            with self._lock:
                self._idle.append(inside)

    def close(self) -> None:
        """See Sandboxes."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            idle = list(self._idle)
            self._idle.clear()
            taken = [inside for inside in self._all.values() if inside not in idle]
        self._starter.close()
        for inside in idle:
            self._forget(inside)
        for inside in taken:
            inside.connection.hang_up()  # Whoever waits for an answer wakes, and gives back what is left.

    @asynccontextmanager
    async def _taken(self) -> AsyncGenerator[Sandbox]:
        await self._gate.enter()
        try:
            sandbox = EpisodeSandbox(
                self._profile,
                await self._ready(),
                open_another=self._ready,
                end=self._end,
                check=self._check,
            )
            try:
                yield sandbox
            finally:
                await sandbox.end()
        finally:
            self._gate.leave()

    def _check(self) -> None:
        """Tell a sandbox that a program ended from one that ended with the pool."""
        if self._is_closed:
            raise SandboxError("the pool of sandboxes was closed while a call ran")
        if not self._starter.is_running():
            raise SandboxError("the process that starts sandboxes ended, and all of them with it; open the pool anew")

    async def _ready(self) -> Inside:
        """A sandbox that nobody had, ready for calls."""
        with self._lock:
            inside = self._idle.popleft() if self._idle else None
        if inside is None:
            inside = self._begin()
        try:
            self.warm()
        except SandboxError:
            self._forget(inside)
            raise
        try:
            answer = await inside.connection.answer(time.monotonic() + READY_S)
        except (TimeoutError, ConnectionEndedError) as error:
            complaint = await self._ended(inside)
            raise SandboxError(f"a sandbox did not start: {complaint or error}") from error
        except asyncio.CancelledError:
            await self._end(inside)
            raise
        if "refused" in answer.header:
            await self._end(inside)
            raise SandboxError(f"a sandbox cannot import what it is to have ready: {answer.header['refused']}")
        return inside

    def _begin(self) -> Inside:
        """Order a sandbox and tell it what it has to be."""
        with self._lock:
            if self._is_closed:
                raise SandboxError("the pool of sandboxes is closed")
            slot = next(number for number in range(len(self._used) + 1) if number not in self._used)
            self._used.add(slot)
        folder = ""
        try:
            if self._recipe.has_folder:
                folder = tempfile.mkdtemp(prefix="sandbox-")
            start = self._starter.start(slot, folder)
        except OSError as error:
            self._free(slot, folder)
            raise SandboxError(f"no sandbox can be started: {error}") from error
        except BaseException:
            self._free(slot, folder)
            raise
        inside = Inside(start, Connection(start.channel), slot, folder)
        with self._lock:
            self._all[start.sandbox] = inside
        settings: Header = dict(self._recipe.request)
        if folder:
            settings.update(work=folder, disks=[])
        with contextlib.suppress(ConnectionEndedError):  # Whoever waits for it to be ready is told why it is not.
            inside.connection.put(self._recipe.payload + request(settings, self._recipe.filtering))
        return inside

    async def _end(self, inside: Inside) -> None:
        """End a sandbox, and wait until nothing of it is left."""
        await self._ended(inside)

    async def _ended(self, inside: Inside) -> str:
        """The same, with what its starter complained of meanwhile."""
        with contextlib.suppress(SandboxError):
            self._starter.end(inside.start.sandbox)
        deadline = time.monotonic() + GONE_S
        complaint = b""
        try:
            while inside.start.sandbox in self._all:
                try:
                    text = os.read(inside.start.gone, COMPLAINT_BYTES)
                except BlockingIOError:
                    await wait_readable(inside.start.gone, deadline)
                    continue
                if not text:
                    break
                complaint = (complaint + text)[-COMPLAINT_BYTES:]
        except TimeoutError as error:
            raise SandboxError(f"a sandbox could not be ended within {GONE_S:g} s") from error
        finally:
            self._forget(inside)
        return complaint.decode("utf-8", "replace").strip()

    def _forget(self, inside: Inside) -> None:
        with self._lock:
            if self._all.pop(inside.start.sandbox, None) is None:
                return
        inside.connection.close()
        os.close(inside.start.gone)
        self._free(inside.slot, inside.folder)

    def _free(self, slot: int, folder: str) -> None:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        with self._lock:
            self._used.discard(slot)
