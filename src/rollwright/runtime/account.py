"""The groups that are open, and what the ledger, the order of tasks and the mixture are told of each.

open ──► ready ──► trained
│        ├─────► filtered, expired: settled, its draw is used up
└────────┴─────► given back: its draw is handed out again, as a new group, to which its slots point
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from rollwright.record import Group, LedgerState, ScoredTrajectory, Trajectory
from rollwright.runtime.deliveries import Deliveries
from rollwright.runtime.errors import LedgerError
from rollwright.runtime.flights import Flight
from rollwright.runtime.ledger import Ledger, SlotChange, member_change
from rollwright.runtime.mixing import SourceMix
from rollwright.runtime.parts import GroupCounter, OpenGroup
from rollwright.tasks import TaskOrder

__all__ = ["GroupAccount"]


class GroupAccount:
    """Knows every group from its dispatch until it is settled or given back."""

    def __init__(
        self, *, order: TaskOrder, counter: GroupCounter, ledger: Ledger, mix: SourceMix, deliveries: Deliveries
    ) -> None:
        """Store the parts; nothing is open."""
        self._order = order
        self._counter = counter
        self._ledger = ledger
        self._mix = mix
        self._deliveries = deliveries
        self._flights: dict[int, Flight] = {}
        """In flight, ready or in a batch that is not settled, by group id."""
        self._again: dict[int, OpenGroup] = {}
        """By number of the draw: groups that wait to be dispatched again."""

    @property
    def flights(self) -> tuple[Flight, ...]:
        """Groups that are open, in order of dispatch."""
        return tuple(self._flights.values())

    def open(self, *, size: int, version: int) -> Flight:
        """Dispatch the next group; one whose draw came to no end before points to it."""
        flight = Flight(
            group_id=self._counter.take(),
            draw=self._order.draw(self._mix.next_source()),
            version=version,
            size=size,
            attempts=[0] * size,
        )
        self._flights[flight.group_id] = flight
        self._deliveries.expect(_name(flight.group_id))
        self._mix.dispatched(flight.draw.stratum)
        if (before := self._again.pop(flight.draw.number, None)) is not None:
            self._requeue(before, flight)
        for slot in range(size):
            self.enter(flight, slot, "in_flight", step=version + 1)
        return flight

    def take_delivery(self, group_id: int) -> bool:
        """True for the first delivery of an open group; any other is refused and counted."""
        is_first = self._deliveries.accept(_name(group_id))
        if is_first:
            self._mix.completed(self._flights[group_id].draw.stratum)
        return is_first

    def enter(
        self,
        flight: Flight,
        slot: int,
        state: LedgerState,
        *,
        step: int,
        trajectory: Trajectory | None = None,
    ) -> None:
        """A slot of an open group enters a state; a failure's cause is its rule."""
        self._ledger.enter(
            SlotChange(
                group_id=flight.group_id,
                slot=slot,
                attempt=flight.attempts[slot],
                state=state,
                task=flight.task,
                step=step,
                policy_version=flight.version,
                trajectory_id=trajectory.trajectory_id if trajectory else None,
                rule=trajectory.failure_cause if trajectory else None,
            )
        )

    def enter_members(
        self, members: Sequence[ScoredTrajectory], state: LedgerState, *, version: int, rule: str | None = None
    ) -> None:
        """The slots of finished members enter a state, by a rule."""
        for member in members:
            self._ledger.enter(member_change(member, state, step=version + 1, rule=rule, version=version))

    def accept(self, group: Group) -> None:
        """A group is in a batch."""
        tokens = sum(m.trajectory.num_action_tokens for m in group.members)
        self._mix.accepted(self._flight_of(group).draw.stratum, tokens)

    def train(self, group: Group, *, step: int, version: int) -> None:
        """The batch that holds a group was trained."""
        flight = self._end(group)
        for member in group.members:
            self._ledger.enter(member_change(member, "trained", step=step, version=version))
        self._ledger.close(flight.group_id, flight.size)

    def drop(
        self, group: Group, state: Literal["filtered", "expired"], rule: str, *, version: int
    ) -> tuple[ScoredTrajectory, ...]:
        """A group comes to its end untrained.

        Returns:
            Its members.
        """
        flight = self._end(group)
        self.enter_members(group.members, state, version=version, rule=rule)
        self._ledger.close(flight.group_id, flight.size)
        self._mix.lost(flight.draw.stratum, state)
        return group.members

    def give_back(self, flight: Flight, rule: str) -> None:
        """A group that came to no end: its draw is handed out again."""
        del self._flights[flight.group_id]
        self._deliveries.forget(_name(flight.group_id))
        self._order.give_back(flight.draw.number)
        self._again[flight.draw.number] = self._open_group(flight, rule)
        self._mix.lost(flight.draw.stratum, "requeued")

    def state(self) -> tuple[tuple[OpenGroup, ...], Mapping[str, int]]:
        """What is to be dispatched again after a restart, and the place in the order of tasks."""
        groups = dict(self._again)
        for flight in self._flights.values():
            groups[flight.draw.number] = self._open_group(flight, "restart")
        return tuple(groups[draw] for draw in sorted(groups)), self._order.state()

    def restore(self, groups: Sequence[OpenGroup], order: Mapping[str, int]) -> None:
        """Go on from what was saved."""
        self._order.restore(order)
        for group in groups:
            self._ledger.reopen(group.group_id, group.states)
            self._again[group.draw] = group

    def _flight_of(self, group: Group) -> Flight:
        flight = self._flights.get(group.group_id)
        if flight is None:
            raise LedgerError(
                f"group {group.group_id} is not in flight: it was handed over twice, or was never dispatched."
            )
        return flight

    def _end(self, group: Group) -> Flight:
        flight = self._flight_of(group)
        del self._flights[group.group_id]
        self._order.settle(flight.draw.number)
        return flight

    def _requeue(self, before: OpenGroup, successor: Flight) -> None:
        """Each slot of a group that came to no end points to the group that its draw is dispatched in now."""
        for slot, state in enumerate(before.states):
            if state is not None:
                self._ledger.enter(
                    SlotChange(
                        group_id=before.group_id,
                        slot=slot,
                        attempt=before.attempts[slot],
                        state="requeued",
                        task=successor.task,
                        step=successor.version + 1,
                        policy_version=before.policy_version,
                        rule=before.rule,
                        successor=successor.group_id,
                    )
                )

    def _open_group(self, flight: Flight, rule: str) -> OpenGroup:
        return OpenGroup(
            group_id=flight.group_id,
            draw=flight.draw.number,
            policy_version=flight.version,
            attempts=tuple(flight.attempts),
            states=self._ledger.states_of(flight.group_id, flight.size),
            rule=rule,
        )


def _name(group_id: int) -> str:
    return f"group {group_id}"
