"""A forger of run folders: changes rows below the codec and mends as many digests as he is told to."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from rollwright.evidence.shards import parquet_bytes
from rollwright.record.columns import arrow_schema
from rollwright.record.tables import table_named

Care = Literal["careless", "commit", "chain"]
"""Which digests are mended: none; that of the shard in its commit; also the chain of the commits behind it."""
Row = dict[str, Any]


def forge(run: Path, table: str, change: Callable[[list[Row]], bool], *, care: Care = "chain") -> str:
    """Change rows of the first shard of a table in which `change` finds what it wants.

    Args:
        run: a folder that may be spoiled.
        table: whose shard.
        change: changes rows in place, and says whether it found any.
        care: how far digests are mended.

    Returns:
        The shard's path below the run.
    """
    for commit_path, shard in _shards(run, table):
        path = run / shard["path"]
        rows = pq.ParquetFile(path).read().to_pylist()
        if not change(rows):
            continue
        due = table_named(table)
        schema = pa.schema([pa.field(f.name, f.type) for f in arrow_schema(due)])
        content = parquet_bytes(due, pa.Table.from_pylist(rows, schema=schema))
        path.write_bytes(content)
        if care != "careless":
            shard |= {
                "sha256": hashlib.sha256(content).hexdigest(),
                "num_bytes": len(content),
                "num_rows": len(rows),
            }
            _rewrite(commit_path, table, shard)
        if care == "chain":
            mend_chain(run)
        return str(shard["path"])
    raise AssertionError(f"no shard of {table} has what is to be forged")


def mend_chain(run: Path) -> None:
    """Let every commit name the one before it again."""
    before: Path | None = None
    for path in sorted((run / "commits").glob("*.json")):
        if before is not None:
            commit = json.loads(path.read_bytes())
            commit["previous_sha256"] = hashlib.sha256(before.read_bytes()).hexdigest()
            path.write_text(json.dumps(commit, indent=1) + "\n")
        before = path


def edit_commit(run: Path, number: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a commit file, and mend the chain behind it."""
    [path] = (run / "commits").glob(f"{number:06d}-*.json")
    commit = json.loads(path.read_bytes())
    change(commit)
    path.write_text(json.dumps(commit, indent=1) + "\n")
    mend_chain(run)


def _shards(run: Path, table: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted((run / "commits").glob("*.json"), reverse=True):
        for shard in json.loads(path.read_bytes())["shards"]:
            if shard["table"] == table:
                yield path, shard


def _rewrite(commit_path: Path, table: str, shard: dict[str, Any]) -> None:
    commit = json.loads(commit_path.read_bytes())
    commit["shards"] = [shard if s["path"] == shard["path"] else s for s in commit["shards"]]
    commit_path.write_text(json.dumps(commit, indent=1) + "\n")
