"""Finished groups wait here, with their age, until a batch of them is full."""

import asyncio
from dataclasses import dataclass

from rollwright.record import Group

__all__ = ["GroupBuffer", "ReadyGroup"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadyGroup:
    """A group of which every slot has ended."""

    group: Group
    oldest_version: int
    """Of its oldest trained token; decides its lag."""


class GroupBuffer:
    """Holds ready groups by group id; a batch is taken oldest dispatch first, whatever finished first."""

    def __init__(self, capacity_slots: int) -> None:
        """Bound the buffer: admission keeps within it, and more is our own fault."""
        self._capacity = capacity_slots
        self._groups: dict[int, ReadyGroup] = {}
        self._changed = asyncio.Condition()

    @property
    def ready_slots(self) -> int:
        """Slots of the groups that wait, those that failed for good included."""
        return sum(g.group.size for g in self._groups.values())

    async def put(self, ready: ReadyGroup) -> None:
        """Add a group; a second delivery of one group is refused."""
        async with self._changed:
            assert ready.group.group_id not in self._groups, f"group {ready.group.group_id} was delivered twice"
            assert self.ready_slots + ready.group.size <= self._capacity, "admission let in more than the buffer holds"
            self._groups[ready.group.group_id] = ready
            self._changed.notify_all()

    async def take(self, slots: int, *, oldest_allowed: int) -> "tuple[tuple[ReadyGroup, ...], tuple[ReadyGroup, ...]]":
        """Wait for `slots` slots of groups that are young enough.

        Args:
            slots: of the batch; groups are whole, so it is a multiple of the group size.
            oldest_allowed: groups with an older token are expired.

        Returns:
            The batch in order of dispatch, and the groups that expired while waiting.
        """
        expired: list[ReadyGroup] = []
        async with self._changed:
            while True:
                for key in [k for k, g in self._groups.items() if g.oldest_version < oldest_allowed]:
                    expired.append(self._groups.pop(key))
                batch: list[ReadyGroup] = []
                filled = 0
                for key in sorted(self._groups):
                    if filled + self._groups[key].group.size <= slots:
                        batch.append(self._groups[key])
                        filled += self._groups[key].group.size
                if filled == slots or expired:
                    break
                await self._changed.wait()
            if filled < slots:
                return (), tuple(expired)
            for ready in batch:
                del self._groups[ready.group.group_id]
        return tuple(batch), tuple(expired)
