"""Evaluations of a stored run, each with its rows, its attempts, and what its protocol's digest is made of.

An attempt belongs to the evaluation whose digest gave it its seed: nothing else needs to be written down.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

from rollwright.evidence.commits import Commit
from rollwright.evidence.events import Event
from rollwright.evidence.run_folder import RunFolder
from rollwright.evidence.shards import read_shard
from rollwright.record import EvaluationRow, canonical_json, evaluation_reset_seed
from rollwright.record.codec import decode_evaluations
from rollwright.record.tables import EVALUATIONS, TRAJECTORIES

__all__ = ["EvaluatedAttempt", "StoredEvaluation", "note_protocol", "stored_evaluations"]

_EVENT = "protocol"
"""The kind of the event that says what a digest is made of."""
_THRESHOLD = "success_threshold"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedAttempt:
    """One attempt at a held-out task, retries and failures included."""

    trajectory_id: str
    task_id: str
    slot: int
    attempt: int
    reward: float | None
    """None: it was not scored."""
    terminal_reason: str
    num_action_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredEvaluation:
    """One checkpoint under one protocol."""

    name: str
    protocol: str
    protocol_sha256: str
    step: int
    commit: int
    recorded_at: datetime
    success_threshold: float
    """A reward of at least this is a success."""
    facts: Mapping[str, str]
    """What the digest is made of, as JSON; empty where the run did not note it."""
    rows: tuple[EvaluationRow, ...]
    attempts: tuple[EvaluatedAttempt, ...]

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """Task to scored attempts n and successes c; (0, 0) where nothing was scored."""
        found: dict[str, tuple[int, int]] = {}
        for one in self.attempts:
            n, c = found.get(one.task_id, (0, 0))
            found[one.task_id] = (n, c) if one.reward is None else (n + 1, c + (one.reward >= self.success_threshold))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the run says of its protocols."""

    facts: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: {})
    default_threshold: float = 1.0

    def threshold(self, sha256: str) -> float:
        text = self.facts.get(sha256, {}).get(_THRESHOLD)
        return self.default_threshold if text is None else float(text)


def note_protocol(folder: RunFolder, *, name: str, sha256: str, facts: Mapping[str, str]) -> None:
    """Write down, once a run, what a protocol's digest is made of, so that a reader can say why two do not compare.

    Args:
        folder: open for writing.
        name: of the protocol.
        sha256: its digest.
        facts: each thing that it holds fixed, as JSON.
    """
    if any(event.kind == _EVENT and event.fields.get("sha256") == sha256 for event in folder.events()):
        return
    folder.record_event(
        Event(
            at=datetime.now(UTC),
            kind=_EVENT,
            text=f"evaluations named {name} hold this fixed",
            fields={"name": name, "sha256": sha256, "facts": canonical_json(dict(facts))},
        )
    )


def stored_evaluations(folder: RunFolder) -> tuple[StoredEvaluation, ...]:
    """Every evaluation that the run has committed, in order.

    Args:
        folder: open; it may be being written, then `refresh` shows later ones.

    Raises:
        ShardError: when a committed file was altered.
    """
    known = _known(folder)
    return tuple(one for commit in folder.commits for one in _of_commit(folder, commit, known))


def _of_commit(folder: RunFolder, commit: Commit, known: _Known) -> list[StoredEvaluation]:
    shards = [shard for shard in commit.shards if shard.table == EVALUATIONS.name]
    rows = [row for shard in shards for row in decode_evaluations(read_shard(folder.path, shard, EVALUATIONS))]
    if not rows:
        return []
    attempts = _attempts(folder, commit)
    by_name: dict[str, list[EvaluationRow]] = {}
    for row in rows:
        by_name.setdefault(row.evaluation, []).append(row)
    return [
        StoredEvaluation(
            name=name,
            protocol=found[0].protocol,
            protocol_sha256=found[0].protocol_sha256,
            step=found[0].step,
            commit=commit.number,
            recorded_at=found[0].recorded_at,
            success_threshold=known.threshold(found[0].protocol_sha256),
            facts=known.facts.get(found[0].protocol_sha256, {}),
            rows=tuple(found),
            attempts=tuple(
                attempt
                for attempt, seed in attempts
                if seed == evaluation_reset_seed(found[0].protocol_sha256, attempt.task_id)
            ),
        )
        for name, found in by_name.items()
    ]


def _attempts(folder: RunFolder, commit: Commit) -> list[tuple[EvaluatedAttempt, int]]:
    """Attempts of all evaluations of a commit, each with its reset seed."""
    columns = ("trajectory_id", "task_id", "slot", "attempt", "reward", "terminal_reason", "num_action_tokens")
    found: list[tuple[EvaluatedAttempt, int]] = []
    for shard in commit.shards:
        if shard.table != TRAJECTORIES.name:
            continue
        table = read_shard(folder.path, shard, TRAJECTORIES)
        rows = table.select(["purpose", "reset_seed", *columns]).to_pylist()
        for row in rows:
            if row["purpose"] == "evaluation":
                values = {name: row[name] for name in columns}
                found.append((EvaluatedAttempt(**values), cast("int", row["reset_seed"])))  # pyright: ignore[reportArgumentType] - columns of the contract
    return found


def _known(folder: RunFolder) -> _Known:
    noted = [event.fields for event in folder.events() if event.kind == _EVENT]
    facts = {one["sha256"]: cast("dict[str, str]", json.loads(one["facts"])) for one in noted}
    key = f"verifier.{_THRESHOLD}"
    chosen = [value.value for value in folder.manifest.configuration if value.key == key]
    return _Known(facts=facts, default_threshold=float(chosen[0]) if chosen else 1.0)
