"""A long run in one process: what it holds after many steps is what it held after some."""

import gc
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rollwright.evidence import CommitRows
from tests.runtime.simulation.account import Account, check_step
from tests.runtime.simulation.disk import Disk
from tests.runtime.simulation.plans import Plan
from tests.runtime.simulation.run import Process

__all__ = ["Day", "live"]


@dataclass
class Day:
    """What a long run came to."""

    seconds: float = 0.0
    """Simulated."""
    slots: Counter[str] = field(default_factory=Counter[str])
    blocks: dict[int, int] = field(default_factory=dict[int, int])
    """Blocks of memory that the interpreter holds, by the step after which they were counted."""


def live(plan: Plan, scratch: Path, *, counted_at: frozenset[int]) -> Day:
    """Run a plan to its end, checking each step, and count what is alive after some of them."""
    day, account = Day(), Account()

    def hear(rows: CommitRows) -> None:
        check_step(plan, rows)
        account.add(rows.ledger)
        day.slots.update(account.forget_ended())
        if rows.step in counted_at:
            gc.collect()
            day.blocks[rows.step] = sys.getallocatedblocks()

    process = Process(plan, Disk(scratch, keeps_rows=3), heard=hear)
    assert process.run() == "finished"
    day.seconds = process.loop.time()
    day.slots.update(account.states.values())
    balance = process.parts.ledger.balance()
    assert dict(balance.by_state) == dict(day.slots), "the ledger and its rows differ"
    assert balance.dispatched == day.slots.total()
    return day
