"""The account of a run, recomputed from the tables that it stored; the runtime's own counters are not asked.

dispatched slots = in flight + ready + trained + filtered + expired + failed + requeued

Each slot is followed from its first row to its last: it begins in flight, every change is one that may be, and what is
final stays so. What the ledger says of a slot is held against the trajectories, the receipts and the groups.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rollwright.evidence import StoredRun, check, query
from rollwright.record import LedgerRow

__all__ = ["STATES", "Account", "Due", "account_of", "follow_slots"]

STATES = ("in_flight", "ready", "trained", "filtered", "expired", "failed", "requeued")
_MAY_FOLLOW: Mapping[str, frozenset[str]] = {
    "in_flight": frozenset({"in_flight", "ready", "failed", "requeued"}),
    "ready": frozenset({"trained", "filtered", "expired", "requeued"}),
    "failed": frozenset({"filtered", "requeued"}),
}
_SHOWN = 3
_NEVER_TRAINED = "('infrastructure_failure', 'aborted', 'superseded')"
_QUESTIONS = (
    (
        "a failed, aborted or superseded episode has a receipt",
        "SELECT DISTINCT trajectory_id FROM receipts JOIN trajectories USING (trajectory_id) "
        f"WHERE terminal_reason IN {_NEVER_TRAINED}",
    ),
    (
        "a failed, aborted or superseded episode has a reward",
        f"SELECT trajectory_id FROM trajectories WHERE terminal_reason IN {_NEVER_TRAINED} AND reward IS NOT NULL",
    ),
    (
        "a verifier that gave no verdict gave a value",
        "SELECT DISTINCT trajectory_id FROM verdicts WHERE status <> 'ok' AND value IS NOT NULL",
    ),
    (
        "an episode is rewarded though no verifier gave a value",
        "SELECT trajectory_id FROM trajectories t WHERE purpose = 'train' AND reward IS NOT NULL AND NOT EXISTS "
        "(FROM verdicts v WHERE v.trajectory_id = t.trajectory_id AND scoring = 0 AND value IS NOT NULL)",
    ),
    (
        "an episode without a reward has weight in a gradient",
        "SELECT trajectory_id FROM receipts JOIN trajectories USING (trajectory_id) WHERE purpose = 'train' AND "
        "reward IS NULL GROUP BY ALL HAVING sum(list_sum(list_transform(expand(token_weight), lambda w: abs(w)))) > 0",
    ),
    (
        "an episode is of no dispatched slot",
        "SELECT trajectory_id FROM trajectories WHERE purpose = 'train' AND (group_id, slot) NOT IN "
        "(SELECT (group_id, slot) FROM ledger)",
    ),
    (
        "two episodes are the same attempt at a slot",
        "SELECT concat_ws('-', group_id, slot, attempt) FROM trajectories WHERE purpose = 'train' "
        "GROUP BY group_id, slot, attempt HAVING count(*) > 1",
    ),
    (
        "a slot is trained, filtered or expired with an episode that is not stored",
        "SELECT concat_ws('-', group_id, slot) FROM slots WHERE state IN ('trained', 'expired') AND "
        "(trajectory_id IS NULL OR trajectory_id NOT IN (SELECT trajectory_id FROM trajectories))",
    ),
    (
        "an episode was trained in two steps",
        "SELECT trajectory_id FROM receipts JOIN trajectories USING (trajectory_id) WHERE purpose = 'train' "
        "GROUP BY ALL HAVING count(DISTINCT step) > 1",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What the run was asked for."""

    group_size: int
    batch_slots: int
    max_lag: int
    rl_steps: int
    """Of RL; the run has come to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What became of every slot."""

    dispatched: int
    by_state: Mapping[str, int]
    wrong: tuple[str, ...]

    @property
    def sum(self) -> int:
        """Over the states."""
        return sum(self.by_state.values())

    def __str__(self) -> str:
        """The equation with its numbers."""
        terms = " + ".join(f"{self.by_state[state]} {state.replace('_', ' ')}" for state in STATES)
        return f"{self.dispatched} dispatched = {terms}"


def account_of(path: Path, due: Due) -> Account:
    """Follow every slot of a finished run, and hold the ledger against everything else that is stored.

    Args:
        path: of the run folder.
        due: what it was asked for.
    """
    followed = follow_slots(StoredRun(path).ledger, due)
    found = (f"{finding.place}: {finding.text}" for finding in check(path).findings)
    return replace(followed, wrong=(*followed.wrong, *found, *_answers(path)))


def follow_slots(rows: Sequence[LedgerRow], due: Due) -> Account:
    """Follow every slot through the rows of a ledger.

    Args:
        rows: in the order of `seq`.
        due: what the run was asked for.
    """
    slots: dict[tuple[int, int], list[LedgerRow]] = defaultdict(list)
    for row in rows:
        slots[row.group_id, row.slot].append(row)
    by_state = Counter(history[-1].state for history in slots.values())
    wrong = (*_histories(slots), *_groups(slots, due), *_ends(slots, due), *_steps(slots, due))
    return Account(dispatched=len(slots), by_state={state: by_state.get(state, 0) for state in STATES}, wrong=wrong)


def _histories(slots: Mapping[tuple[int, int], Sequence[LedgerRow]]) -> Iterator[str]:
    for (group, slot), history in slots.items():
        states = [str(row.state) for row in history]
        if states[0] != "in_flight":
            yield f"slot {slot} of group {group} begins {states[0]} and was never dispatched"
        for before, after in zip(states, states[1:], strict=False):
            if after not in _MAY_FOLLOW.get(before, frozenset()):
                yield f"slot {slot} of group {group} went from {before} to {after}"
        if states.count("trained") > 1:
            yield f"slot {slot} of group {group} was trained {states.count('trained')} times"


def _groups(slots: Mapping[tuple[int, int], Sequence[LedgerRow]], due: Due) -> Iterator[str]:
    """Groups are whole, of one task, and what is handed out again says where."""
    members: dict[int, dict[int, LedgerRow]] = defaultdict(dict)
    for (group, slot), history in slots.items():
        members[group][slot] = history[-1]
    for group, last in members.items():
        missing = sorted(set(range(due.group_size)) - set(last))
        if missing:
            yield f"group {group} has no slot {', '.join(map(str, missing))}: it was lost"
        if len({row.task_id for row in last.values()}) > 1:
            yield f"group {group} is of several tasks"
        for row in last.values():
            if row.state == "requeued" and row.successor is not None:
                successor = members.get(row.successor)
                if successor is None:
                    yield f"group {group} was dispatched again as group {row.successor}, which is missing"
                elif {other.task_id for other in successor.values()} != {row.task_id}:
                    yield f"group {row.successor} is of another task than group {group}, which it follows"


def _ends(slots: Mapping[tuple[int, int], Sequence[LedgerRow]], due: Due) -> Iterator[str]:
    """What is open when a run ends is young: what is older should have been trained or expired."""
    newest = max((row.step for history in slots.values() for row in history if row.state == "trained"), default=0)
    for (group, slot), history in slots.items():
        last = history[-1]
        if last.state in ("in_flight", "ready") and due.max_lag == 0:
            yield f"slot {slot} of group {group} is {last.state.replace('_', ' ')} at the end: it was lost"
        elif last.state == "ready" and last.policy_version < newest - 1 - due.max_lag:
            yield f"slot {slot} of group {group} is ready since version {last.policy_version} and nobody took it"


def _steps(slots: Mapping[tuple[int, int], Sequence[LedgerRow]], due: Due) -> Iterator[str]:
    """Each step trained one batch of whole groups."""
    groups: dict[int, set[int]] = defaultdict(set)
    for (group, _), history in slots.items():
        if history[-1].state == "trained":
            groups[history[-1].step].add(group)
    if len(groups) != due.rl_steps:
        yield f"{len(groups)} RL steps trained a batch; {due.rl_steps} were asked for"
    for step, some in sorted(groups.items()):
        if len(some) * due.group_size != due.batch_slots:
            yield (
                f"step {step} trained {len(some)} groups of {due.group_size}; a batch has {due.batch_slots} slots: a "
                "group was lost or came twice"
            )


def _answers(path: Path) -> Iterator[str]:
    for what, sql in _QUESTIONS:
        found = [str(row[0]) for row in query(path, sql).rows]
        if found:
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            yield f"{what}: {', '.join(found[:_SHOWN])}{more}"
