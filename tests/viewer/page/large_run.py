"""A run as large as wished, written in bulk: one step is encoded by the record's codec, the others are that step with
other ids, numbers and times. Every commit is valid: shards with digests, ledger numbers that go on, keys that differ.
"""

import math
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from rollwright.evidence import CommitRows, RunFolder
from rollwright.evidence.commits import CommitDraft, newest_digest, write_commit
from rollwright.evidence.drafting import draft_tables
from rollwright.evidence.shards import file_sha256
from rollwright.record import Metric
from tests.evidence.runs import START, evaluation, manifest, metric, trained_step

# Without types: the stubs of Arrow name only what the package itself uses.
pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")

SEGMENTS_OF_EPISODE = 4
_GROUP_SIZE = 8
_SHIFTED = {"group_id": "groups", "step": "steps", "update": "steps", "policy_version": "steps", "seq": "rows"}


def write_large_run(path: Path, *, segments: int = 1_000_000, steps: int = 400) -> Path:
    """Write a run with at least that many segments in that many steps.

    Args:
        path: does not exist yet.
        segments: 4 an episode, two of them sampled, each with a receipt.
        steps: each a commit; every 20th is evaluated.
    """
    groups = math.ceil(segments / steps / SEGMENTS_OF_EPISODE / _GROUP_SIZE)
    with RunFolder.create(path, manifest(run_id="large"), "[run]\n") as folder:
        folder.commit(evaluation(0, group_id=900_000_000), at=START)
        first = trained_step(1, groups=groups, size=_GROUP_SIZE)
        tables, _ = draft_tables(first, "full", 0, frozenset())
        by_step = {name: table for name, table in tables.items() if table.num_rows and name != "metrics"}
        digest = file_sha256(path / "manifest.json")
        for step in range(1, steps + 1):
            drafted = {name: _of_step(table, step, groups) for name, table in by_step.items()}
            extra = evaluation(step, group_id=900_000_000 + step) if step % 20 == 0 else CommitRows(kind="step", step=0)
            rows = CommitRows(
                kind="step",
                step=step,
                trajectories=extra.trajectories,
                evaluations=extra.evaluations,
                metrics=_metrics(step),
            )
            more, _ = draft_tables(rows, "full", 0, frozenset())
            write_commit(
                path,
                CommitDraft(
                    number=step + 1,
                    kind="step",
                    step=step,
                    committed_at=START + timedelta(seconds=30 * step),
                    manifest_sha256=digest,
                    last_seq=step * by_step["ledger"].num_rows - 1,
                    previous_sha256=newest_digest(path),
                    tables={name: _joined(drafted.get(name), more.get(name)) for name in {*drafted, *more}},
                    blobs={},
                ),
            )
    return path


def _joined(one: Any, two: Any) -> Any:
    return pa.concat_tables([t for t in (one, two) if t is not None])


def _of_step(table: Any, step: int, groups: int) -> Any:
    """The rows of step 1 as those of another step."""
    shifts = {"groups": (step - 1) * groups, "steps": step - 1, "rows": (step - 1) * table.num_rows}
    for at, name in enumerate(table.column_names):
        column = table.column(name)
        if name in _SHIFTED:
            moved = pc.add(column, pa.scalar(shifts[_SHIFTED[name]], column.type))
        elif name in ("trajectory_id", "call_id", "task_id"):
            moved = _renamed(column, name, shifts["groups"])
        elif name in ("started_at", "ended_at", "recorded_at"):
            moved = pc.add(column, pa.scalar(timedelta(seconds=30 * step)))
        else:
            continue
        table = table.set_column(at, table.schema.field(name), moved.cast(column.type))
    return table


def _renamed(column: Any, name: str, groups: int) -> Any:
    """Ids of the same shape with a larger group: `t000123-04-0`, `t000123-04-0/c2`, `arithmetic/00000000000000aa`."""
    coded = column.combine_chunks().dictionary_encode()
    texts: list[str | None] = []
    for text in coded.dictionary.to_pylist():
        if name == "task_id":
            source, _, digits = text.partition("/")
            texts.append(f"{source}/{int(digits, 16) + groups:016x}")
        else:
            group, dash, rest = text[1:].partition("-")
            texts.append(f"{text[0]}{int(group) + groups:06d}{dash}{rest}")
    return pa.chunked_array([pa.array(texts, column.type).take(coded.indices)])


def _metrics(step: int) -> list[Metric]:
    """A hundred numbers a step, of which some move."""
    noise = np.random.default_rng(step)
    reward = 1 - math.exp(-step / 120) + 0.05 * noise.standard_normal()
    made = [
        metric("reward/total", reward, step=step, unit="reward"),
        metric("entropy/full", 2 * math.exp(-step / 200), step=step, unit="nat", model="policy"),
        metric("len/response", 30 + step / 20, step=step, unit="tokens"),
        metric("policy/kl_ref", 0.001 * step, step=step, update=step, unit="nat/token", model="policy"),
        metric("policy/grad_norm", 1 + 0.2 * noise.standard_normal(), step=step, update=step, model="policy"),
        metric("weight_sum", 1.0, step=step, update=step, model="policy", component="policy_gradient"),
    ]
    for part in ("engine", "environment", "verifiers", "learner"):
        for state in ("busy", "syncing", "starved", "blocked"):
            made.append(metric("time/part", 1 + noise.random(), step=step, unit="s", part=part, state=state))
    return made + [
        metric("is/quantiles", noise.random(), step=step, update=step, unit="ratio", quantile=str(n / 100))
        for n in range(78)
    ]
