"""The ledger: what became of every slot, over steps, of a task, of a group."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, get_args

from rollwright.evidence.following import Look, Row
from rollwright.record import LedgerState

__all__ = ["STATES", "Balance", "balance_by_step", "slots_of_task", "slots_where", "rules_of_slots"]

STATES: Final[tuple[str, ...]] = get_args(LedgerState)
_SLOTS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """How many slots were in each state when a step was done."""

    step: int
    counts: Mapping[str, int]
    total: int
    """Slots dispatched until then."""


def balance_by_step(look: Look) -> tuple[Balance, ...]:
    """The sums after each step; every slot is in exactly one state, so they add up to what was dispatched."""
    rows = look.ask(
        "WITH moved AS (SELECT step, state, lag(state) OVER (PARTITION BY group_id, slot ORDER BY seq) AS before "
        "FROM {ledger}), "
        "changes AS (SELECT step, state, 1 AS n FROM moved UNION ALL SELECT step, before, -1 FROM moved WHERE "
        "before IS NOT NULL) "
        "SELECT step, state, sum(n) AS n FROM changes GROUP BY step, state ORDER BY step",
        commits=look.holding("ledger"),
    )
    running = dict.fromkeys(STATES, 0)
    found: list[Balance] = []
    for step in sorted({row["step"] for row in rows}):
        for row in rows:
            if row["step"] == step:
                running[row["state"]] = running.get(row["state"], 0) + int(row["n"])
        found.append(Balance(step=step, counts=dict(running), total=sum(running.values())))
    return tuple(found)


def slots_where(look: Look, state: str, rule: str | None) -> list[Row]:
    """The newest slots whose last state is this one."""
    return look.ask(
        "SELECT * FROM (SELECT * FROM {ledger} QUALIFY row_number() OVER (PARTITION BY group_id, slot ORDER BY "
        "seq DESC) = 1) "
        f"WHERE state = $state AND ($rule IS NULL OR rule = $rule) ORDER BY seq DESC LIMIT {_SLOTS}",
        {"state": state, "rule": rule},
        commits=look.holding("ledger"),
    )


def slots_of_task(look: Look, task_id: str) -> list[Row]:
    """What became of each slot that was dispatched for a task, newest first, with its episode."""
    rows = look.ask(
        "SELECT * FROM {ledger} WHERE task_id = $task "
        "QUALIFY row_number() OVER (PARTITION BY group_id, slot ORDER BY seq DESC) = 1 "
        f"ORDER BY group_id DESC, slot LIMIT {2 * _SLOTS}",
        {"task": task_id},
        commits=look.holding("ledger"),
    )
    names = [row["trajectory_id"] for row in rows if row["trajectory_id"] is not None]
    episodes = {
        row["trajectory_id"]: row
        for row in (
            look.ask(
                "SELECT trajectory_id, terminal_reason, reward, unscored_reason, num_tokens FROM {trajectories} "
                "WHERE task_id = $task AND list_contains($names, trajectory_id)",
                {"task": task_id, "names": names},
                commits=look.holding("trajectories"),
            )
            if names
            else []
        )
    }
    return [{**row, "episode": episodes.get(row["trajectory_id"])} for row in rows]


def rules_of_slots(look: Look) -> list[Row]:
    """The rules that decided slots, with how many."""
    return look.ask(
        "SELECT state, rule, count(*) AS n, max(step) AS last_step FROM "
        "(SELECT * FROM {ledger} QUALIFY row_number() OVER (PARTITION BY group_id, slot ORDER BY seq DESC) = 1) "
        "GROUP BY ALL ORDER BY n DESC LIMIT 100",
        commits=look.holding("ledger"),
    )
