"""Streams of a call while it runs: head and tail of what comes out, and what goes in."""

import os
import select

from rollwright.sandboxes.inside.plain import suppress

__all__ = ["Feed", "Kept"]

CHUNK_BYTES = 65_536
GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Kept:
    """The first and the last half of a bound; all that came is counted."""

    def __init__(self, most: int) -> None:
        self.head = bytearray()
        self.total = 0
        self._num_head = most - most // 2
        self._num_tail = most // 2
        self._tail = bytearray()

    @property
    def tail(self) -> bytes:
        """What came last, after the head."""
        return bytes(self._tail[-self._num_tail :])

    def add(self, data: bytes) -> None:
        """Take what came next."""
        self.total += len(data)
        room = self._num_head - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if len(data) >= self._num_tail:
            self._tail = bytearray(data[-self._num_tail :])
        else:
            self._tail += data
            if len(self._tail) > 4 * self._num_tail + CHUNK_BYTES:
                del self._tail[: -self._num_tail]

    def drain(self, descriptor: int, most_chunks: int) -> bool:
        """Read what is there, at most so many chunks; False where the stream has ended."""
        for _ in range(most_chunks):
            try:
                data = os.read(descriptor, CHUNK_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.add(data)
        return True


class Feed:
    """Bytes on their way into a pipe that may be full."""

    def __init__(self, descriptor: int, data: bytes) -> None:
        self.descriptor = descriptor
        self._left = memoryview(data)

    def advance(self, event: int) -> bool:
        """Write what fits; False when all is written or nobody reads any more."""
        if event & GONE:
            return False
        with suppress(BlockingIOError):
            try:
                self._left = self._left[os.write(self.descriptor, self._left[:65_536]) :]
            except BrokenPipeError:
                return False
        return bool(self._left)

    def close(self) -> None:
        """Let the reader see the end."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
