"""Rows of the ledger for episodes that a test made."""

from rollwright.record import LedgerRow
from tests.runtime.fakes import NOON

__all__ = ["ledger_row"]


def ledger_row(member, state, *, rule=None):
    trajectory = member.trajectory
    return LedgerRow(
        seq=0,
        recorded_at=NOON,
        step=1,
        group_id=trajectory.group_id,
        slot=trajectory.slot,
        attempt=trajectory.attempt,
        task_id=trajectory.task.task_id,
        task_source=trajectory.task.source,
        state=state,
        rule=rule,
        trajectory_id=trajectory.trajectory_id,
        successor=None,
        policy_version=0,
    )
