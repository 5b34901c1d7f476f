"""Finished groups wait here, with their age, until a batch of them is full.

Where groups without contrast are filtered (dynamic sampling, M94), they stand aside until the batch is closed that they
were sampled for: up to `most_extra` of them are replaced, and what exceeds that closes the batch by `at_cap`. So the
batch is the same whatever finished first.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rollwright.algorithms.sampling.dynamic_sampling import AtCap
from rollwright.record import Group
from rollwright.runtime.errors import NoProgressError

__all__ = ["GroupBuffer", "ReadyGroup", "RefillRule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefillRule:
    """What is done about groups that teach nothing."""

    most_extra: int
    """Groups that are sampled in their place, for one batch."""
    at_cap: AtCap
    """What a batch is that is not full then: smaller, filled with what there is, or the end of the run."""

    def __post_init__(self) -> None:
        """Refuse a cap that is none."""
        if self.most_extra < 0:
            raise ValueError(f"most_extra is {self.most_extra}; it is a number of groups, from 0.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadyGroup:
    """A group of which every slot has ended."""

    group: Group
    oldest_version: int
    """Of the trained token that decides its lag: its oldest; its newest where stale tokens are masked alone."""
    has_contrast: bool = True
    """False: to be replaced, where such groups are filtered."""


class GroupBuffer:
    """Holds ready groups by group id; a batch is taken oldest dispatch first, whatever finished first."""

    def __init__(self, capacity_slots: int, *, refill: RefillRule | None = None) -> None:
        """Bound the buffer: admission keeps within it, and more is our own fault."""
        self._capacity = capacity_slots
        self._refill = refill
        self._groups: dict[int, ReadyGroup] = {}
        self._aside: dict[int, ReadyGroup] = {}
        self._changed = asyncio.Condition()

    @property
    def ready_slots(self) -> int:
        """Slots of the groups that wait and are not replaced, those that failed for good included."""
        return _slots_of(self._groups.values()) + _slots_of(self._excess())

    async def put(self, ready: ReadyGroup) -> None:
        """Add a group; a second delivery of one group is refused."""
        async with self._changed:
            group_id = ready.group.group_id
            assert group_id not in self._groups and group_id not in self._aside, f"group {group_id} was delivered twice"
            held = _slots_of(self._groups.values()) + _slots_of(self._aside.values())
            assert held + ready.group.size <= self._capacity, "admission let in more than the buffer holds"
            if self._refill is None or ready.has_contrast:
                self._groups[group_id] = ready
            else:
                self._aside[group_id] = ready
            self._changed.notify_all()

    async def take(self, slots: int, *, oldest_allowed: int) -> tuple[tuple[ReadyGroup, ...], tuple[ReadyGroup, ...]]:
        """Wait for `slots` slots of groups that are young enough.

        Args:
            slots: of the batch; groups are whole, so it is a multiple of the group size.
            oldest_allowed: groups with an older token are expired.

        Returns:
            The batch in order of dispatch, or the groups that expired while waiting, without a batch: something of
            them may come back.

        Raises:
            NoProgressError: where groups without contrast used up their replacements and the rule is to end, or nothing
                is left to train.
        """
        async with self._changed:
            while True:
                expired = [
                    groups.pop(key)
                    for groups in (self._groups, self._aside)
                    for key in [k for k, g in groups.items() if g.oldest_version < oldest_allowed]
                ]
                if expired:
                    return (), tuple(expired)
                batch = _filling(self._groups, slots)
                is_full = _slots_of(batch) == slots
                if not is_full and self._slots_with_excess() >= slots:
                    batch, is_full = self._closed(batch, slots), True
                if is_full:
                    break
                await self._changed.wait()
            for ready in batch:
                self._groups.pop(ready.group.group_id, None)
                self._aside.pop(ready.group.group_id, None)
        return tuple(batch), ()

    def take_aside(self) -> tuple[ReadyGroup, ...]:
        """Groups without contrast that the batch just taken has left, by id; they wait for nothing any more."""
        left = tuple(self._aside[key] for key in sorted(self._aside))
        self._aside.clear()
        return left

    def _excess(self) -> list[ReadyGroup]:
        """Groups without contrast that are not replaced any more: the newest ones."""
        if self._refill is None:
            return []
        return [self._aside[key] for key in sorted(self._aside)[self._refill.most_extra :]]

    def _slots_with_excess(self) -> int:
        excess = _slots_of(self._excess())
        return _slots_of(self._groups.values()) + excess if excess else 0

    def _closed(self, batch: list[ReadyGroup], slots: int) -> list[ReadyGroup]:
        """The batch at the cap."""
        assert self._refill is not None, "only filtered groups reach a cap"
        if self._refill.at_cap == "best_available":
            return _filling({**self._groups, **self._aside}, slots, first=batch)
        if self._refill.at_cap == "smaller" and batch:
            return batch
        aside = self._aside.values()
        rewards = sorted({m.outcome for g in aside for m in g.group.members if not isinstance(m.outcome, str)})
        raise NoProgressError(
            f"kept {len(batch)} groups for a batch of {slots} slots, seen {len(batch) + len(aside)}: {len(aside)} have "
            f"no contrast, and {self._refill.most_extra} of those are replaced at most; their rewards are "
            f"{rewards[:20]}. Choose other tasks, raise rollout.max_extra_groups, or set rollout.at_cap to "
            "best_available."
        )


def _slots_of(groups: Iterable[ReadyGroup]) -> int:
    return sum(g.group.size for g in groups)


def _filling(groups: Mapping[int, ReadyGroup], slots: int, *, first: Iterable[ReadyGroup] = ()) -> list[ReadyGroup]:
    """Groups that fit into so many slots, oldest dispatch first, `first` before all others; in order of dispatch."""
    chosen = {ready.group.group_id: ready for ready in first}
    filled = _slots_of(chosen.values())
    for key in sorted(groups.keys() - chosen.keys()):
        if filled + groups[key].group.size <= slots:
            chosen[key] = groups[key]
            filled += groups[key].group.size
    return [chosen[key] for key in sorted(chosen)]
