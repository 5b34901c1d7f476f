"""The account of every dispatched slot: each is in exactly one state, and the sums balance at every step."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from rollwright.record import LedgerRow, LedgerState, Task
from rollwright.runtime.errors import LedgerError

__all__ = ["Ledger", "LedgerBalance", "SlotChange"]

_NEXT: Mapping[LedgerState | None, frozenset[LedgerState]] = {
    None: frozenset({"in_flight"}),
    "in_flight": frozenset({"in_flight", "ready", "failed", "requeued"}),
    "ready": frozenset({"trained", "filtered", "expired"}),
    "failed": frozenset({"filtered", "requeued"}),
}
"""From a live state to what may follow; trained, filtered, expired and requeued are final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotChange:
    """One slot enters a state."""

    group_id: int
    slot: int
    attempt: int
    state: LedgerState
    task: Task
    step: int
    policy_version: int
    trajectory_id: str | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerBalance:
    """Slots by state, and how many were ever dispatched."""

    dispatched: int
    by_state: Mapping[str, int]


class Ledger:
    """Takes changes, refuses impossible ones, and hands the rows of a step to its commit."""

    def __init__(self, now: Callable[[], datetime], balance: LedgerBalance | None = None) -> None:
        """Start empty, or from a checkpoint's balance; `now` stamps the rows."""
        self._now = now
        self._live: dict[tuple[int, int], LedgerState] = {}
        self._counts: Counter[str] = Counter(balance.by_state if balance else {})
        self._settled = Counter({state: self._counts[state] for state in _NEXT if state is not None})
        """Slots that failed for good before the checkpoint: their groups are settled, so nothing moves them again."""
        self._dispatched = balance.dispatched if balance else 0
        self._pending: list[LedgerRow] = []

    def enter(self, change: SlotChange) -> None:
        """Move a slot to a state.

        Raises:
            LedgerError: when the slot cannot go there from where it stands (a duplicate delivery, a second training).
        """
        key = (change.group_id, change.slot)
        before = self._live.get(key)
        if change.state not in _NEXT.get(before, frozenset()):
            raise LedgerError(
                f"slot {change.slot} of group {change.group_id} is {before or 'not in flight'} and cannot become "
                f"{change.state}; a slot is trained at most once, and only from ready."
            )
        if before is None:
            self._dispatched += 1
        else:
            self._counts[before] -= 1
        self._counts[change.state] += 1
        if change.state in _NEXT:
            self._live[key] = change.state
        else:
            del self._live[key]
        self._pending.append(
            LedgerRow(
                seq=0,
                recorded_at=self._now(),
                step=change.step,
                group_id=change.group_id,
                slot=change.slot,
                attempt=change.attempt,
                task_id=change.task.task_id,
                task_source=change.task.source,
                state=change.state,
                rule=change.rule,
                trajectory_id=change.trajectory_id,
                successor=None,
                policy_version=change.policy_version,
            )
        )

    def balance(self) -> LedgerBalance:
        """The account as it stands.

        Raises:
            LedgerError: naming the difference, when the states do not hold each dispatched slot once.
        """
        by_state = {state: count for state, count in sorted(self._counts.items()) if count}
        live = Counter(self._live.values())
        held = {s: live[s] + self._settled[s] for s in _NEXT if s is not None}
        wrong = {s: (self._counts[s], n) for s, n in held.items() if self._counts[s] != n}
        if sum(by_state.values()) != self._dispatched or wrong:
            raise LedgerError(
                f"the ledger does not balance: {self._dispatched} slots were dispatched, its states hold "
                f"{sum(by_state.values())} ({by_state}); live states that differ (counted, held): {wrong}."
            )
        return LedgerBalance(dispatched=self._dispatched, by_state=by_state)

    def take_rows(self) -> tuple[LedgerRow, ...]:
        """The rows since the last call, for one commit."""
        rows, self._pending = tuple(self._pending), []
        return rows
