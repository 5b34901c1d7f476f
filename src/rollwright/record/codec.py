"""Records of a run and Arrow tables into each other: `decode(encode(x))` is `x`.

Pure: bytes that stand outside the tables (artifacts, large tensors) go out as a map from digest to bytes and come back
through a function. Compression and encodings are the writer's.
"""

import hashlib
import mimetypes
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeVar, cast, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rollwright.record.arrays import frozen_array
from rollwright.record.columns import Values, as_field_map, decode_column, encode_columns, encode_records, encode_rows
from rollwright.record.engine import Sampling
from rollwright.record.environment import NamedValue, Task
from rollwright.record.rows import (
    EvaluationRow,
    LedgerRow,
    Metric,
    Receipt,
    Runs,
    Segment,
    TokenSpan,
    ToolCall,
)
from rollwright.record.tables import (
    EVALUATIONS,
    LEDGER,
    METRICS,
    RECEIPTS,
    SEGMENTS,
    TASKS,
    TENSORS,
    TOOL_CALLS,
    TRAJECTORIES,
    VERDICTS,
    Table,
)
from rollwright.record.trajectory import RewardComponent, ScoredTrajectory, TerminalReason, Trajectory
from rollwright.record.verifier import Span, Verdict

__all__ = [
    "EncodedTrajectories",
    "ReceiptTable",
    "ScoredVerdict",
    "decode_evaluations",
    "decode_ledger",
    "decode_metrics",
    "decode_receipts",
    "decode_trajectories",
    "decode_verdicts",
    "encode_evaluations",
    "encode_ledger",
    "encode_metrics",
    "encode_receipts",
    "encode_trajectories",
    "encode_verdicts",
]

T = TypeVar("T")
Row = tuple[object, ...]

INLINE_TENSOR_BYTES = 1 << 20
"""A larger tensor becomes a blob."""
_ACTIONS = frozenset({"policy", "demonstration"})
_NO_SPAN = Span(segment=-1, token_start=0, token_end=0)
_MEDIA_TYPES = mimetypes.MimeTypes(filenames=())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedTrajectories:
    """Trajectories as tables, and the bytes that stand beside them."""

    tables: Mapping[str, pa.Table]
    """trajectories, segments, tensors, tool_calls, verdicts, tasks; empty ones included."""
    blobs: Mapping[str, bytes]
    """Digest to bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredVerdict:
    """A verdict with the scoring it belongs to: 0 is trained on, above 0 re-scored."""

    scoring: int
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredArtifact:
    name: str
    sha256: str
    bytes: int
    media_type: str


def encode_trajectories(
    trajectories: Sequence[ScoredTrajectory], known_tasks: Container[str] = frozenset()
) -> EncodedTrajectories:
    """Finished, scored episodes as tables.

    Args:
        trajectories: any number, in the order to be stored.
        known_tasks: ids of tasks that are stored already.

    Returns:
        Their tables; each other task once; artifacts and tensors above 1 MiB as blobs.
    """
    blobs: dict[str, bytes] = {}
    heads = [scored.trajectory for scored in trajectories]
    tensors = [
        _tensor_row(t.trajectory_id, s.segment, key, s.tensors[key], blobs)
        for t in heads
        for s in t.segments
        if s.tensors
        for key in sorted(s.tensors)
    ]
    lengths = [len(s.token_ids) for t in heads for s in t.segments]
    verdicts = [verdict for scored in trajectories for verdict in _first_verdicts(scored)]
    tasks: dict[str, Task] = {}
    for t in heads:
        if t.task.task_id not in known_tasks:
            tasks.setdefault(t.task.task_id, t.task)
    tables = {
        TRAJECTORIES.name: _encode_heads(trajectories, lengths, blobs),
        SEGMENTS.name: _encode_parts(SEGMENTS, [(t.trajectory_id, t.segments) for t in heads], num_tokens=lengths),
        TENSORS.name: encode_rows(TENSORS, tensors),
        TOOL_CALLS.name: _encode_parts(TOOL_CALLS, [(t.trajectory_id, t.tool_calls) for t in heads]),
        VERDICTS.name: _encode_verdicts(verdicts, [0] * len(verdicts)),
        TASKS.name: encode_records(TASKS, tuple(tasks.values())),
    }
    return EncodedTrajectories(tables=tables, blobs=blobs)


def decode_trajectories(
    tables: Mapping[str, pa.Table], read_blob: Callable[[str], bytes]
) -> tuple[ScoredTrajectory, ...]:
    """What `encode_trajectories` was given.

    Args:
        tables: as encoded; rows of other trajectories may stand among them.
        read_blob: digest to bytes.

    Returns:
        The trajectories in the order stored. A verdict of scope turn under the environment's revision is one of the
        trajectory's turn rewards.
    """
    tasks = {t.task_id: t for t in _records(TASKS, tables[TASKS.name], Task)}
    tensors = _tensors_by_segment(tables[TENSORS.name], read_blob)
    segments: dict[str, list[Segment]] = defaultdict(list)
    for row in _maps(SEGMENTS, tables[SEGMENTS.name], sampling=Sampling, spans=TokenSpan):
        del row["num_tokens"]
        name = cast("str", row.pop("trajectory_id"))
        key = (name, cast("int", row["segment"]))
        segments[name].append(_made(Segment, row | {"tensors": tensors.get(key, {})}))
    calls: dict[str, list[ToolCall]] = defaultdict(list)
    for row in _maps(TOOL_CALLS, tables[TOOL_CALLS.name]):
        name = cast("str", row.pop("trajectory_id"))
        calls[name].append(_made(ToolCall, row))
    verdicts: dict[str, list[Verdict]] = defaultdict(list)
    for given in decode_verdicts(tables[VERDICTS.name]):
        if given.scoring == 0:
            verdicts[given.verdict.trajectory_id].append(given.verdict)
    found = [
        _trajectory(row, tasks, (segments, calls, verdicts), read_blob)
        for row in _maps(
            TRAJECTORIES, tables[TRAJECTORIES.name], reward_components=RewardComponent, artifacts=_StoredArtifact
        )
    ]
    return tuple(found)


def encode_verdicts(verdicts: Sequence[ScoredVerdict]) -> pa.Table:
    """Verdicts of any scoring."""
    return _encode_verdicts([v.verdict for v in verdicts], [v.scoring for v in verdicts])


def decode_verdicts(table: pa.Table) -> tuple[ScoredVerdict, ...]:
    """What `encode_verdicts` was given."""
    return tuple(_verdict(row) for row in _maps(VERDICTS, table, components=NamedValue))


class ReceiptTable(Sequence[Receipt]):
    """Receipts that were made as columns, and are records only where one is looked at."""

    def __init__(self, table: pa.Table) -> None:
        """Of the rows of `encode_receipts`."""
        self.table = table

    @classmethod
    def of_columns(cls, columns: Mapping[str, Values], num_rows: int) -> "ReceiptTable":
        """From the fields of `num_rows` receipts by name; what is not given is None in all."""
        return cls(encode_columns(RECEIPTS, columns, num_rows))

    @classmethod
    def joined(cls, tables: Sequence["ReceiptTable"]) -> "ReceiptTable":
        """One behind the other."""
        if not tables:
            return cls(encode_records(RECEIPTS, ()))
        return cls(pa.concat_tables([one.table for one in tables]).combine_chunks())

    @classmethod
    def interleaved(cls, parts: Sequence["ReceiptTable"]) -> "ReceiptTable":
        """The first of each of some equally long parts, then the second of each, and so on."""
        if len(parts) == 1:
            return parts[0]
        order = np.arange(sum(map(len, parts))).reshape(len(parts), -1).T.ravel()
        return cls(cls.joined(parts).table.take(pa.array(order)).combine_chunks())

    def trajectories_moved(self) -> frozenset[str]:
        """Ids of those with any influence."""
        names = cast("list[str]", self.table.column("trajectory_id").to_pylist())
        moved = cast("list[float]", self.table.column("influence").to_pylist())
        return frozenset(name for name, influence in zip(names, moved, strict=True) if influence > 0)

    def __len__(self) -> int:
        """How many."""
        return self.table.num_rows

    @overload
    def __getitem__(self, index: int) -> Receipt: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Receipt]: ...

    def __getitem__(self, index: int | slice) -> Receipt | Sequence[Receipt]:
        """Receipts as records."""
        return decode_receipts(self.table)[index]

    def __iter__(self) -> Iterator[Receipt]:
        """All, as records."""
        return iter(decode_receipts(self.table))


def encode_receipts(receipts: Sequence[Receipt]) -> pa.Table:
    """Receipts as a table."""
    return receipts.table if isinstance(receipts, ReceiptTable) else encode_records(RECEIPTS, receipts)


def decode_receipts(table: pa.Table) -> tuple[Receipt, ...]:
    """What `encode_receipts` was given."""
    return _records(RECEIPTS, table, Receipt, advantage=Runs, token_weight=Runs, correction=Runs, flags=Runs)


def encode_ledger(rows: Sequence[LedgerRow]) -> pa.Table:
    """Ledger rows as a table."""
    return encode_records(LEDGER, rows)


def decode_ledger(table: pa.Table) -> tuple[LedgerRow, ...]:
    """What `encode_ledger` was given."""
    return _records(LEDGER, table, LedgerRow)


def encode_metrics(metrics: Sequence[Metric]) -> pa.Table:
    """Metrics as a table."""
    return encode_records(METRICS, metrics)


def decode_metrics(table: pa.Table) -> tuple[Metric, ...]:
    """What `encode_metrics` was given."""
    return _records(METRICS, table, Metric)


def encode_evaluations(rows: Sequence[EvaluationRow]) -> pa.Table:
    """Evaluation rows as a table."""
    return encode_records(EVALUATIONS, rows)


def decode_evaluations(table: pa.Table) -> tuple[EvaluationRow, ...]:
    """What `encode_evaluations` was given."""
    return _records(EVALUATIONS, table, EvaluationRow)


def _first_verdicts(scored: ScoredTrajectory) -> Sequence[Verdict]:
    """What the environment paid is stored once, also where a scorer repeats it among its verdicts."""
    paid = scored.trajectory.turn_rewards
    return (*paid, *(v for v in scored.verdicts if v not in paid)) if paid else scored.verdicts


def _encode_heads(
    trajectories: Sequence[ScoredTrajectory], lengths: Sequence[int], blobs: dict[str, bytes]
) -> pa.Table:
    """The table of trajectories, whose segments have these lengths; their artifacts go to `blobs`."""
    heads = [scored.trajectory for scored in trajectories]
    acts = [
        n if s.origin in _ACTIONS else 0 for n, s in zip(lengths, (s for t in heads for s in t.segments), strict=True)
    ]
    ends = list(accumulate(len(t.segments) for t in heads))
    outcomes = [scored.outcome for scored in trajectories]
    return encode_records(
        TRAJECTORIES,
        heads,
        task_id=[t.task.task_id for t in heads],
        task_source=[t.task.source for t in heads],
        task_revision=[t.task.revision for t in heads],
        task_split=[t.task.split for t in heads],
        terminal_reason=[str(t.terminal_reason) for t in heads],
        reward=[None if isinstance(o, str) else o for o in outcomes],
        unscored_reason=[o if isinstance(o, str) else None for o in outcomes],
        reward_rule=[scored.reward_rule for scored in trajectories],
        reward_components=[scored.reward_components for scored in trajectories],
        artifacts=[_stored_artifacts(t.artifacts, blobs) for t in heads],
        num_tokens=_sums(lengths, ends),
        num_action_tokens=_sums(acts, ends),
        verifying_s=[scored.verifying_s for scored in trajectories],
    )


def _sums(numbers: Sequence[int], ends: Sequence[int]) -> list[int]:
    """The sum of each part, which ends before a place."""
    before = list(accumulate(numbers, initial=0))
    return [before[end] - before[start] for start, end in pairwise((0, *ends))]


def _stored_artifacts(artifacts: Mapping[str, bytes], blobs: dict[str, bytes]) -> list[_StoredArtifact]:
    stored: list[_StoredArtifact] = []
    for name in sorted(artifacts):
        content = artifacts[name]
        sha256 = hashlib.sha256(content).hexdigest()
        blobs[sha256] = content
        media_type = _MEDIA_TYPES.guess_type(name)[0] or "application/octet-stream"
        stored.append(_StoredArtifact(name=name, sha256=sha256, bytes=len(content), media_type=media_type))
    return stored


def _encode_parts(table: Table, parts: Sequence[tuple[str, Sequence[object]]], **given: Sequence[object]) -> pa.Table:
    """What trajectories consist of, given as (trajectory_id, records), and columns that are known."""
    names = [name for name, records in parts for _ in records]
    return encode_records(table, [record for _, records in parts for record in records], trajectory_id=names, **given)


_DERIVED = ("num_turns", "num_tokens", "num_action_tokens", "task_id", "task_source", "task_revision", "task_split")


def _trajectory(
    row: dict[str, object],
    tasks: Mapping[str, Task],
    parts: tuple[Mapping[str, Sequence[Segment]], Mapping[str, Sequence[ToolCall]], Mapping[str, Sequence[Verdict]]],
    read_blob: Callable[[str], bytes],
) -> ScoredTrajectory:
    segments, calls, verdicts = parts
    name = cast("str", row["trajectory_id"])
    task = tasks[cast("str", row["task_id"])]
    reward, unscored = row.pop("reward"), row.pop("unscored_reason")
    scores = {key: row.pop(key) for key in ("reward_rule", "reward_components", "verifying_s")}
    artifacts = cast("tuple[_StoredArtifact, ...]", row["artifacts"])
    own, said = _split_turn_rewards(verdicts.get(name, ()), cast("str", row["environment_revision"]))
    fields = {key: value for key, value in row.items() if key not in _DERIVED} | {
        "task": task,
        "terminal_reason": TerminalReason(cast("str", row["terminal_reason"])),
        "segments": tuple(segments.get(name, ())),
        "tool_calls": tuple(calls.get(name, ())),
        "artifacts": {a.name: read_blob(a.sha256) for a in artifacts},
        "turn_rewards": own,
    }
    outcome = reward if unscored is None else unscored
    return _made(
        ScoredTrajectory,
        {"trajectory": _made(Trajectory, fields), "verdicts": said, "outcome": outcome, **scores},
    )


def _split_turn_rewards(
    verdicts: Sequence[Verdict], environment_revision: str
) -> tuple[tuple[Verdict, ...], tuple[Verdict, ...]]:
    def is_own(verdict: Verdict) -> bool:
        return verdict.scope == "turn" and verdict.revision == environment_revision

    return tuple(v for v in verdicts if is_own(v)), tuple(v for v in verdicts if not is_own(v))


def _encode_verdicts(verdicts: Sequence[Verdict], scorings: Sequence[int]) -> pa.Table:
    outcomes = [v.outcome for v in verdicts]
    spans = [v.span or _NO_SPAN for v in verdicts]
    return encode_records(
        VERDICTS,
        verdicts,
        scoring=scorings,
        verifier_revision=[v.revision for v in verdicts],
        segment=[span.segment for span in spans],
        token_start=[span.token_start for span in spans],
        token_end=[span.token_end for span in spans],
        status=["error" if isinstance(o, str) else "ok" for o in outcomes],
        error_cause=[o if isinstance(o, str) else None for o in outcomes],
        value=[None if isinstance(o, str) else o for o in outcomes],
        evidence=[v.evidence or None for v in verdicts],
    )


def _verdict(row: dict[str, object]) -> ScoredVerdict:
    segment = cast("int", row["segment"])
    start, end = cast("int", row["token_start"]), cast("int", row["token_end"])
    verdict = _made(
        Verdict,
        {key: row[key] for key in ("trajectory_id", "verifier", "scope", "components", "finding", "latency_s", "cost")}
        | {
            "revision": row["verifier_revision"],
            "outcome": row["value"] if row["status"] == "ok" else row["error_cause"],
            "evidence": row["evidence"] or "",
            "span": None if segment < 0 else Span(segment=segment, token_start=start, token_end=end),
        },
    )
    return ScoredVerdict(scoring=cast("int", row["scoring"]), verdict=verdict)


def _tensor_row(
    trajectory_id: str, segment: int, name: str, tensor: NDArray[np.generic], blobs: dict[str, bytes]
) -> Row:
    data = np.ascontiguousarray(tensor).tobytes()
    sha256 = hashlib.sha256(data).hexdigest()
    is_inline = len(data) <= INLINE_TENSOR_BYTES
    if not is_inline:
        blobs[sha256] = data
    shape = np.array(tensor.shape, dtype=np.int32)
    return (trajectory_id, segment, name, tensor.dtype.name, shape, data if is_inline else None, sha256)


def _tensors_by_segment(
    table: pa.Table, read_blob: Callable[[str], bytes]
) -> Mapping[tuple[str, int], dict[str, NDArray[np.generic]]]:
    found: dict[tuple[str, int], dict[str, NDArray[np.generic]]] = defaultdict(dict)
    for row in _maps(TENSORS, table):
        data = cast("bytes | None", row["data"])
        raw = read_blob(cast("str", row["sha256"])) if data is None else data
        shape = cast("NDArray[np.int32]", row["shape"])
        flat = np.frombuffer(raw, dtype=np.dtype(cast("str", row["dtype"])))
        key = (cast("str", row["trajectory_id"]), cast("int", row["segment"]))
        found[key][cast("str", row["name"])] = frozen_array(flat.reshape(tuple(shape.tolist())), flat.dtype)
    return found


def _maps(table: Table, rows: pa.Table, **make: Callable[..., object]) -> list[dict[str, object]]:
    names = [c.name for c in table.columns]
    columns = [decode_column(c, rows.column(c.name), make.get(c.name, as_field_map)) for c in table.columns]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _records(table: Table, rows: pa.Table, make: Callable[..., T], **parts: Callable[..., object]) -> tuple[T, ...]:
    return tuple(make(**row) for row in _maps(table, rows, **parts))


def _made(make: Callable[..., T], fields: Mapping[str, object]) -> T:
    return make(**fields)
