"""The files of a run that are no tables: manifests, the chain of commits, recipe, blobs, checkpoints, events."""

import hashlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

from rollwright.evidence.checking.findings import Finding
from rollwright.evidence.checking.loading import LoadedRun
from rollwright.evidence.checkpoints import Checkpoint, RefusedCheckpoint, verify_checkpoint
from rollwright.evidence.commits import broken_links
from rollwright.evidence.errors import EvidenceError
from rollwright.evidence.manifest import Manifest
from rollwright.evidence.shards import file_sha256
from rollwright.record.seeds import digest
from rollwright.record.tables import STORED_TABLES

__all__ = ["check_files"]

_BLOBS = """SELECT any_value(place), sha256, bytes FROM (
    SELECT concat('trajectories ', trajectory_id) AS place, a.sha256, a.bytes FROM
      (SELECT trajectory_id, unnest(artifacts) AS a FROM trajectories)
    UNION SELECT concat('tensors ', trajectory_id, ' ', segment, ' ', name), sha256, NULL FROM tensors
      WHERE data IS NULL
    UNION SELECT concat('tool_calls ', call_id), result_sha256, result_bytes FROM tool_calls WHERE retention = 'blob')
  GROUP BY sha256, bytes"""
_TENSORS = """SELECT concat('tensors ', trajectory_id, ' ', segment, ' ', name),
    concat('the sha256 of its data is ', left(sha256(data), 12), '…'), concat(left(sha256, 12), '…, as the row says')
  FROM tensors WHERE data IS NOT NULL AND sha256 IS NOT NULL AND sha256(data) <> sha256"""


def check_files(run: LoadedRun) -> Iterator[Finding]:
    """What is on the disk against the digests that are kept of it."""
    yield from run.file_findings
    yield from _manifests(run)
    yield from _chain(run)
    yield from _unlisted(run)
    yield from _recipe(run)
    yield from _template(run)
    yield from _blobs(run)
    yield from run.found("files", _TENSORS)
    yield from _checkpoints(run)
    yield from _lines(run.folder.path / "events.jsonl")
    yield from _gates(run.folder.path / "gates.json")


def _manifests(run: LoadedRun) -> Iterator[Finding]:
    """Each commit names the manifest of its segment by digest."""
    root = run.folder.path
    paths = [root / "manifest.json", *sorted((root / "manifests").glob("*.json"))]
    digests = {file_sha256(path): path for path in paths if path.is_file()}
    foreign = sorted({c.manifest_sha256 for c in run.folder.commits} - digests.keys())
    for sha256 in foreign:
        numbers = [c.number for c in run.folder.commits if c.manifest_sha256 == sha256]
        yield Finding(
            place="manifest.json",
            text=f"it was edited after the run began: no manifest has the sha256 {sha256[:12]}… that commits "
            f"{_listed(numbers)} name",
            expected="a manifest is frozen; restore it from a copy of the run",
        )


def _chain(run: LoadedRun) -> Iterator[Finding]:
    """Each commit names the file before it by digest, so an edited commit shows in the next."""
    commits = {c.number: c for c in run.folder.commits}
    for commit in broken_links(run.folder.path, run.folder.commits):
        before = commits.get(commit.number - 1)
        name = (
            f"commits/{before.number:06d}-{before.kind}.json" if before is not None else f"commit {commit.number - 1}"
        )
        yield Finding(
            place=name,
            text=f"it was edited or replaced after commit {commit.number} was written, or that one was",
            expected=f"a file of sha256 {(commit.previous_sha256 or 'none')[:12]}…, as commit {commit.number} says",
        )
    steps = [c for c in run.folder.commits if c.kind == "step"]
    for before, after in zip(steps, steps[1:], strict=False):
        if after.step < before.step:
            yield Finding(
                place=f"commit {after.number}",
                text=f"it is of step {after.step}, behind step {before.step}",
                expected="steps in order",
            )
        elif after.step > before.step + 1:
            yield Finding(
                place=f"commit {after.number}",
                text=f"step {after.step} comes after step {before.step}: what lies between is not there",
                expected=f"step {before.step + 1}",
                severity="loss",
            )


def _unlisted(run: LoadedRun) -> Iterator[Finding]:
    """One file listed twice. A file that no commit lists never happened, and is no fault."""
    seen: dict[str, int] = {}
    for commit in run.folder.commits:
        tables = [s.table for s in commit.shards]
        for name in sorted({t for t in tables if tables.count(t) > 1}):
            yield Finding(place=f"commit {commit.number}", text=f"it lists two files of {name}", expected="one a table")
        for shard in commit.shards:
            if shard.path in seen:
                yield Finding(
                    place=shard.path,
                    text=f"commits {seen[shard.path]} and {commit.number} both list it",
                    expected="one commit a file",
                )
            seen[shard.path] = commit.number
            if not shard.path.startswith(f"{shard.table}/") or shard.table not in {t.name for t in STORED_TABLES}:
                yield Finding(
                    place=shard.path, text=f"it is listed for the table {shard.table}", expected="its own folder"
                )


def _recipe(run: LoadedRun) -> Iterator[Finding]:
    """The recipe's file says what the manifest's configuration says, and that is what its digest is of."""
    path = run.folder.path / "recipe.toml"
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        yield Finding(place="recipe.toml", text=f"it cannot be read: {error}", severity="loss")
        return
    said = {key: value for key, value in _flat("", tree) if key != "schema_version"}
    first: Manifest = run.manifests[-1]
    kept = {v.key: json.loads(v.value) for v in first.configuration}
    shared = (key for key in kept.keys() & said.keys() if not key.startswith("exporters."))
    for key in sorted(shared):
        if kept[key] != said[key]:
            yield Finding(
                place="recipe.toml", text=f"{key} is {said[key]!r}", expected=f"{kept[key]!r}, as the manifest says"
            )


def _flat(prefix: str, node: object) -> Iterator[tuple[str, object]]:
    match node:
        case dict():
            for key, inner in node.items():  # pyright: ignore[reportUnknownVariableType] - TOML
                yield from _flat(f"{prefix}.{key}".lstrip("."), inner)  # pyright: ignore[reportUnknownArgumentType] - TOML
        case _:
            if prefix:
                yield prefix, node


def _template(run: LoadedRun) -> Iterator[Finding]:
    """The chat template is the one that the run began with."""
    path = run.folder.tokenizer / "chat_template.jinja"
    if not path.is_file():
        return
    found = digest(path.read_text(encoding="utf-8"))
    due = run.folder.manifest.model.chat_template_sha256
    if found != due:
        yield Finding(
            place="tokenizer/chat_template.jinja",
            text=f"its digest is {found[:12]}…",
            expected=f"{due[:12]}…, as the manifest says",
        )


def _blobs(run: LoadedRun) -> Iterator[Finding]:
    """Bytes that rows name by their digest."""
    for place, sha256, size in run.rows(_BLOBS):
        path = run.folder.path / "blobs" / str(sha256)
        if not path.is_file():
            yield Finding(place=f"blobs/{sha256}", text=f"the file is missing; {place} names it", severity="loss")
        elif hashlib.sha256(content := path.read_bytes()).hexdigest() != sha256:
            yield Finding(place=f"blobs/{sha256}", text=f"it was altered; {place} names it")
        elif size is not None and size != len(content):
            yield Finding(
                place=str(place),
                text=f"it says that blob {str(sha256)[:12]}… has {size} bytes",
                expected=f"{len(content)}",
            )


def _checkpoints(run: LoadedRun) -> Iterator[Finding]:
    """Checkpoints that do not count: their marker, commit or bytes do not agree."""
    for one in run.folder.checkpoints():
        refused = one if isinstance(one, RefusedCheckpoint) else _verified(one)
        if refused is not None:
            yield Finding(place=f"checkpoints/{refused.name}", text=refused.reason)


def _verified(one: Checkpoint) -> RefusedCheckpoint | None:
    try:
        return verify_checkpoint(one)
    except (OSError, EvidenceError) as error:
        return RefusedCheckpoint(name=one.name, reason=f"a file of it cannot be read: {error}")


def _lines(path: Path) -> Iterator[Finding]:
    """Events that are no events; only the last line may be torn, by a kill."""
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip() or number == len(lines):
            continue
        try:
            event = json.loads(line)
            fault = None if isinstance(event, dict) and {"at", "kind", "text"} <= event.keys() else "it is no event"
        except ValueError:
            fault = "it is no JSON"
        if fault is not None:
            yield Finding(place=f"events.jsonl line {number}", text=fault, expected="an event: at, kind, text")


def _gates(path: Path) -> Iterator[Finding]:
    """The verdicts of gates can be read."""
    if not path.exists():
        return
    try:
        json.loads(path.read_bytes())
    except ValueError as error:
        yield Finding(place="gates.json", text=f"it is no JSON: {error}")


def _listed(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
