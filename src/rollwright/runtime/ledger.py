"""The account of every dispatched slot: each is in exactly one state, and the sums balance at every step."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rollwright.record import LedgerRow, LedgerState, ScoredTrajectory, Task
from rollwright.runtime.errors import LedgerError

__all__ = ["Ledger", "LedgerBalance", "SlotChange", "member_change"]

_NEXT: Mapping[LedgerState | None, frozenset[LedgerState]] = {
    None: frozenset({"in_flight"}),
    "in_flight": frozenset({"in_flight", "ready", "failed", "requeued"}),
    "ready": frozenset({"trained", "filtered", "expired", "requeued"}),
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
    successor: int | None = None
    """Of `requeued`: the group in which the draw was dispatched again."""


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
        """Slots that nothing moves any more: those that failed for good in groups that are settled. After a restart
        also what was open then, until `reopen` names it."""
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
                successor=change.successor,
                policy_version=change.policy_version,
            )
        )

    def states_of(self, group_id: int, size: int) -> tuple[LedgerState | None, ...]:
        """Where the slots of a group stand; None where a slot has come to its end."""
        return tuple(self._live.get((group_id, slot)) for slot in range(size))

    def close(self, group_id: int, size: int) -> None:
        """A group is settled: those of its slots that failed for good are moved by nothing any more."""
        for slot in range(size):
            if self._live.get((group_id, slot)) == "failed":
                del self._live[group_id, slot]
                self._settled["failed"] += 1

    def reopen(self, group_id: int, states: Sequence[LedgerState | None]) -> None:
        """Say where the slots of a group stood that was open at the checkpoint: they are still to be moved.

        Raises:
            LedgerError: for slots that the checkpoint's balance does not hold.
        """
        for slot, state in enumerate(states):
            if state is None:
                continue
            if not self._settled[state] or (group_id, slot) in self._live:
                raise LedgerError(
                    f"the checkpoint says that slot {slot} of group {group_id} was {state}, and its balance holds no "
                    "such slot; its files belong to different moments of the run. Resume from another checkpoint."
                )
            self._settled[state] -= 1
            self._live[group_id, slot] = state

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


def member_change(
    member: ScoredTrajectory, state: LedgerState, *, step: int, version: int, rule: str | None = None
) -> SlotChange:
    """The change of state of the slot that a finished member stands in."""
    trajectory = member.trajectory
    return SlotChange(
        group_id=trajectory.group_id,
        slot=trajectory.slot,
        attempt=trajectory.attempt,
        state=state,
        task=trajectory.task,
        step=step,
        policy_version=version,
        trajectory_id=trajectory.trajectory_id,
        rule=rule,
    )
