"""From a task forward: every slot, attempt, verdict, step, influence and re-dispatch that it came to."""

from collections.abc import Iterator
from typing import cast

from rollwright.evidence.why.answers import Answer, Fact
from rollwright.evidence.why.asking import Asked, Row, text_of
from rollwright.evidence.why.words import counted, reason_words, state_words

__all__ = ["task_answer"]

_SLOTS = """SELECT group_id, slot, state, rule, step, successor, trajectory_id, seq FROM ledger
  WHERE task_id = {task} ORDER BY group_id, slot, seq"""
_EPISODES = """SELECT t.*, r.updates, r.moved, r.untrained, r.steps,
    (SELECT list(verifier || ' = ' || coalesce(value::TEXT, error_cause) ORDER BY verifier) FROM verdicts v
      WHERE v.trajectory_id = t.trajectory_id AND scoring = 0 AND scope <> 'turn') AS verdicts
  FROM trajectories t LEFT JOIN (SELECT trajectory_id, count(DISTINCT update) AS updates, sum(influence) AS moved,
    max(untrained_reason) AS untrained, list(DISTINCT step) AS steps FROM receipts GROUP BY trajectory_id) r
    USING (trajectory_id)
  WHERE t.task_id = {task} ORDER BY t.purpose, t.group_id, t.slot, t.attempt"""


def task_answer(asked: Asked, task_id: str) -> Answer:
    """What became of a task.

    Args:
        asked: the run.
        task_id: of the task.

    Raises:
        EvidenceError: for a task that the run does not have, saying which come near.
    """
    task = asked.task(task_id)
    episodes = asked.rows(_EPISODES.format(task=text_of(task_id)))
    slots = _slots(asked, task_id)
    moved = sum(float(cast("float", row["moved"] or 0.0)) for row in episodes)
    facts = [
        Fact(name="payload", value=str(task["payload"]), text=f"{task['payload']}"),
        Fact(
            name="split",
            value=str(task["split"]),
            text=f"source {task['source']} at revision {task['revision']}, split {task['split']}",
            source=f"SELECT split FROM tasks WHERE task_id = {text_of(task_id)}",
        ),
        Fact(
            name="influence",
            value=moved,
            text=f"{len(episodes)} episodes; together they moved {moved:.9g}",
            source="SELECT coalesce(sum(influence), 0) FROM receipts JOIN trajectories USING (trajectory_id) "
            f"WHERE task_id = {text_of(task_id)}",
        ),
    ]
    groups = sorted({cast("int", row["group_id"]) for row in (*episodes, *(r for one in slots.values() for r in one))})
    parts = [_group(group, episodes, slots) for group in groups]
    return Answer(title=f"task {task_id}", facts=tuple(facts), parts=tuple(parts))


def _slots(asked: Asked, task_id: str) -> dict[tuple[int, int], list[Row]]:
    found: dict[tuple[int, int], list[Row]] = {}
    for row in asked.rows(_SLOTS.format(task=text_of(task_id))):
        found.setdefault((cast("int", row["group_id"]), cast("int", row["slot"])), []).append(row)
    return found


def _group(group: int, episodes: list[Row], slots: dict[tuple[int, int], list[Row]]) -> Answer:
    own = [row for row in episodes if row["group_id"] == group]
    purpose = str(own[0]["purpose"]) if own else "train"
    facts = [*_states(group, slots), *(_episode(row) for row in own)]
    return Answer(title=f"group {group}, {purpose}", facts=tuple(facts))


def _states(group: int, slots: dict[tuple[int, int], list[Row]]) -> Iterator[Fact]:
    for (of_group, slot), rows in slots.items():
        if of_group != group:
            continue
        last = rows[-1]
        way = " → ".join(str(row["state"]) for row in rows)
        rule = f", rule {last['rule']}" if last["rule"] is not None else ""
        again = f", again as group {last['successor']}" if last["successor"] is not None else ""
        yield Fact(
            name=f"slot:{group}:{slot}",
            value=str(last["state"]),
            text=f"slot {slot}: {way} in step {last['step']}{rule}{again}: {state_words(str(last['state']))}",
            source=f"SELECT state FROM slots WHERE group_id = {group} AND slot = {slot}",
        )


def _episode(row: Row) -> Fact:
    name = str(row["trajectory_id"])
    earned = f"reward {row['reward']:.9g}" if row["reward"] is not None else f"no reward ({row['unscored_reason']})"
    verdicts = f"; {', '.join(cast('list[str]', row['verdicts']))}" if row["verdicts"] else ""
    lineage = f", {row['lineage']} {row['parent_trajectory_id']}" if row["lineage"] else ""
    value = None if row["updates"] is None else float(cast("float", row["moved"]))
    if row["updates"] is None:
        trained = "not trained"
    else:
        steps = ", ".join(map(str, sorted(cast("list[int]", row["steps"]))))
        trained = f"trained in step {steps} by {counted(row['updates'], 'update')}, moved {value:.9g}"
        if row["untrained"] is not None:
            trained += f" ({row['untrained']}: {reason_words(str(row['untrained']))})"
    return Fact(
        name=f"episode:{name}",
        value=value,
        text=f"{name}: attempt {row['attempt']}{lineage}, {row['terminal_reason']}, {earned}{verdicts}; {trained}",
        source=f"SELECT sum(influence) FROM receipts WHERE trajectory_id = {text_of(name)}",
    )
