"""The account of a run from its committed rows alone: written apart from the ledger, so that one checks the other."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from rollwright.evidence import CommitRows
from rollwright.record import LedgerRow
from rollwright.runtime.progress import Progress
from tests.runtime.simulation.plans import Plan

__all__ = ["Account", "check_step"]

FINAL = frozenset({"trained", "filtered", "expired", "requeued"})
MAY_FOLLOW: Mapping[str | None, frozenset[str]] = {
    None: frozenset({"in_flight"}),
    "in_flight": frozenset({"in_flight", "ready", "failed", "requeued"}),
    "ready": frozenset({"trained", "filtered", "expired", "requeued"}),
    "failed": frozenset({"requeued"}),
}
Slot = tuple[int, int]


class Account:
    """Where each slot stands after some commits."""

    def __init__(self) -> None:
        self.states: dict[Slot, str] = {}
        self.tasks: dict[int, str] = {}
        """By group."""
        self.successors: dict[int, set[int | None]] = defaultdict(set)

    def add(self, rows: Sequence[LedgerRow]) -> None:
        for row in rows:
            slot = (row.group_id, row.slot)
            before = self.states.get(slot)
            assert row.state in MAY_FOLLOW.get(before, frozenset()), f"slot {slot} goes from {before} to {row.state}"
            self.states[slot] = row.state
            assert self.tasks.setdefault(row.group_id, row.task_id) == row.task_id, "a group has one task"
            if row.state == "requeued":
                self.successors[row.group_id].add(row.successor)

    def forget_ended(self) -> Counter[str]:
        """Drop the slots that came to an end, failed ones included, and say how many those are by state."""
        ended = {slot: state for slot, state in self.states.items() if state in FINAL or state == "failed"}
        for slot in ended:
            del self.states[slot]
        open_groups = {group for group, _ in self.states}
        self.tasks = {group: task for group, task in self.tasks.items() if group in open_groups}
        self.successors.clear()
        return Counter(ended.values())

    def check(self, progress: Progress) -> None:
        """The ledger's own balance says the same."""
        counts = Counter(self.states.values())
        assert dict(progress.balance.by_state) == dict(counts), (
            f"the ledger says {dict(progress.balance.by_state)}, its rows {dict(counts)} after step {progress.step}"
        )
        assert progress.balance.dispatched == len(self.states)

    def check_draws(self, sequences: Mapping[str, Sequence[str]], progress: Progress) -> None:
        """Every draw that the cursor calls done came to one end, in one group, and no other did.

        Args:
            sequences: the tasks of each source in the order of their draws, all different.
            progress: of the newest checkpoint.
        """
        cursor = progress.collector.order
        assert cursor is not None
        keys = [key.split("/") for key in cursor if key.startswith("pending/")]
        pending = {(source, cursor[f"pending/{number}/{source}"]) for _, number, source in keys}
        done = {
            tasks[position]
            for source, tasks in sequences.items()
            for position in range(cursor[f"begun/{source}"])
            if (source, position) not in pending
        }
        by_task: dict[str, list[int]] = defaultdict(list)
        for group, task in sorted(self.tasks.items()):
            by_task[task].append(group)
        ends = Counter(task for task, groups in by_task.items() for group in groups if self._is_settled(group))
        assert set(ends) >= done, f"draws of {sorted(done - set(ends))} were skipped"
        assert set(ends) <= done | self._failed_alone(), f"draws of {sorted(set(ends) - done)} come again"
        assert all(count == 1 for count in ends.values()), f"draws were used twice: {ends}"
        for task, groups in by_task.items():
            for group, later in zip(groups, groups[1:], strict=False):
                assert self.successors[group] == {later}, f"group {group} of {task} was followed by {later}"

    def _is_settled(self, group: int) -> bool:
        states = self._of(group)
        return not any(state in ("in_flight", "ready", "requeued") for state in states)

    def _failed_alone(self) -> set[str]:
        """Tasks of groups of which all slots have failed; whether they are settled, the states do not say."""
        return {self.tasks[g] for g in self.tasks if all(state == "failed" for state in self._of(g))}

    def _of(self, group: int) -> list[str]:
        return [state for (one, _), state in self.states.items() if one == group]


def check_step(plan: Plan, rows: CommitRows) -> None:
    """A batch is of whole groups, none too old, and every trained slot is there with its episode."""
    trained = [row for row in rows.ledger if row.state == "trained"]
    stage_step = rows.step - plan.warm_steps
    if stage_step < 1:
        assert not trained
        return
    episodes = {one.trajectory_id: one.trajectory for one in rows.trajectories}
    assert len(episodes) == len(rows.trajectories), "an episode is committed once"
    slots: Counter[int] = Counter()
    for row in trained:
        assert row.trajectory_id is not None and row.step == rows.step
        episode = episodes[row.trajectory_id]
        assert (episode.group_id, episode.slot) == (row.group_id, row.slot)
        slots[row.group_id] += 1
        versions = [s.policy_version for s in episode.segments if s.policy_version is not None]
        assert max(versions) < rows.step, "tokens come from weights that were not made yet"
        # Where old tokens are masked, an episode may stay with nothing that is trained; its receipts say so.
        lag = rows.step - 1 - min(versions)
        assert lag <= plan.max_lag or plan.over_lag == "mask", f"{row.trajectory_id} has lag {lag} in step {rows.step}"
    assert len(slots) == plan.batch_groups, f"step {rows.step} has {len(slots)} groups"
    least = plan.group_size if plan.incomplete == "filter" else max(1, plan.min_fraction * plan.group_size)
    assert all(least <= count <= plan.group_size for count in slots.values()), f"groups have {slots}"
    for receipt in rows.receipts:
        version = episodes[receipt.trajectory_id].segments[receipt.segment].policy_version
        is_old = version is not None and rows.step - 1 - version > plan.max_lag
        assert not is_old or receipt.untrained_reason, f"tokens of version {version} were trained in step {rows.step}"
    receipts = {r.trajectory_id for r in rows.receipts}
    assert receipts == {row.trajectory_id for row in trained}, "receipts and trained slots differ"
