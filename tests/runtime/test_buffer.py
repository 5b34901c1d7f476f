"""The buffer: oldest dispatch first, expiry by the oldest token."""

import asyncio

import pytest

from rollwright.record import Group
from rollwright.runtime.buffer import GroupBuffer, ReadyGroup
from tests.runtime.fakes import task


def ready(group_id, oldest=0, size=2):
    return ReadyGroup(group=Group(group_id=group_id, task=task(group_id), size=size, members=()), oldest_version=oldest)


async def filled(*groups):
    buffer = GroupBuffer(100)
    for group in groups:
        await buffer.put(group)
    return buffer


def test_a_batch_is_taken_in_order_of_dispatch():
    async def go():
        buffer = await filled(ready(5), ready(1), ready(3))
        batch, expired = await buffer.take(4, oldest_allowed=0)
        return [b.group.group_id for b in batch], expired, buffer.ready_slots

    assert asyncio.run(go()) == ([1, 3], (), 2)


def test_lag_equal_to_the_bound_is_inside_and_one_more_expires():
    async def go():
        buffer = await filled(ready(1, oldest=2), ready(2, oldest=3))
        batch, expired = await buffer.take(4, oldest_allowed=3)
        return batch, [e.group.group_id for e in expired], buffer.ready_slots

    assert asyncio.run(go()) == ((), [1], 2)


def test_a_group_delivered_twice_is_our_own_fault():
    with pytest.raises(AssertionError, match="delivered twice"):
        asyncio.run(filled(ready(1), ready(1)))
