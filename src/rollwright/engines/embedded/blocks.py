"""Which blocks of the cache hold the context of each place.

A place has a table of blocks of 64 positions. Contexts with a common start share its whole blocks: nothing is copied,
and the block is written by nobody while several places hold it. What a place writes next goes to blocks of its own; a
block that it shares and is about to write is copied first. Blocks are taken from the lowest free number on, so that
what is read in a step stands close together.
"""

import heapq

import numpy as np

__all__ = ["BLOCK", "EMPTY_BLOCK", "WASTE_BLOCK", "BlockTables", "Change"]

BLOCK = 64
EMPTY_BLOCK = 0
"""Never written: what a table is filled up with."""
WASTE_BLOCK = 1
"""Never read: where rows that only pad are written."""
_RESERVED = 2

Change = tuple[list[int], list[tuple[int, int]]]
"""Blocks to be emptied, and (source, target) blocks to be copied afterwards."""


class BlockTables:
    """The tables of all places; numbers only, the cache itself is elsewhere."""

    def __init__(self, num_places: int, max_tokens: int) -> None:
        """Start with empty places.

        Args:
            num_places: tables.
            max_tokens: positions of the longest context; there are as many blocks as all places can ever need.
        """
        width = -(-max_tokens // BLOCK)
        self.num_blocks = _RESERVED + num_places * width
        self.blocks = np.full((num_places, width), EMPTY_BLOCK, dtype=np.int64)
        """(places, blocks) in the order of positions."""
        self.sizes = np.zeros(num_places, dtype=np.int64)
        """(places,) blocks of each."""
        self.num_changes = 0
        """Grows with every change of a table."""
        self._users = np.zeros(self.num_blocks, dtype=np.int64)
        self._free = list(range(_RESERVED, self.num_blocks))

    def reserve(self, place: int, start: int, end: int) -> Change:
        """Make the blocks of positions `start` to `end` − 1 this place's own, and forget those behind.

        Args:
            place: about to be written.
            start: first position; before it everything stays.
            end: behind the last.

        Returns:
            What has to be done to the cache first.
        """
        first, size = min(start // BLOCK, int(self.sizes[place])), -(-end // BLOCK)
        emptied: list[int] = []
        copied: list[tuple[int, int]] = []
        if size < self.sizes[place]:
            self._drop(place, size)
        for i in range(first, size):
            held = int(self.blocks[place, i])
            if held != EMPTY_BLOCK and self._users[held] == 1:
                continue
            own = self._take()
            emptied.append(own)
            if held != EMPTY_BLOCK:
                self._users[held] -= 1
                if i * BLOCK < start:
                    copied.append((held, own))
            self._set(place, i, own)
        return emptied, copied

    def share(self, source: int, target: int, num_tokens: int) -> Change:
        """Let a place begin as another: whole blocks are held by both, the rest of the last is to be copied.

        Returns:
            What has to be done to the cache.
        """
        if source == target:
            return [], []
        self._drop(target, 0)
        whole, rest = divmod(num_tokens, BLOCK)
        for i in range(whole):
            held = int(self.blocks[source, i])
            self._users[held] += 1
            self._set(target, i, held)
        if not rest:
            return [], []
        own = self._take()
        self._set(target, whole, own)
        return [], [(int(self.blocks[source, whole]), own)]

    def forget(self, place: int) -> None:
        """Give the blocks of a place back."""
        self._drop(place, 0)

    def num_users(self, block: int) -> int:
        """Places that hold a block."""
        return int(self._users[block])

    def _take(self) -> int:
        block = heapq.heappop(self._free)
        self._users[block] = 1
        return block

    def _set(self, place: int, index: int, block: int) -> None:
        self.blocks[place, index] = block
        self.sizes[place] = max(int(self.sizes[place]), index + 1)
        self.num_changes += 1

    def _drop(self, place: int, size: int) -> None:
        """Keep the first blocks of a table only."""
        for block in self.blocks[place, size : self.sizes[place]].tolist():
            self._users[block] -= 1
            if not self._users[block]:
                heapq.heappush(self._free, block)
        self.blocks[place, size:] = EMPTY_BLOCK
        self.sizes[place] = size
        self.num_changes += 1
