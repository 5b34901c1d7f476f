"""Two sources of tasks as texts, and what of the second stands in the first: recipes, files, stored runs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pyarrow.parquet import ParquetFile

from rollwright.evidence import Event, RunFolder, query
from rollwright.recipes.build.identity import event_now
from rollwright.recipes.build.world import build_world
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import resolve
from rollwright.record import Task
from rollwright.statistics import wilson_interval
from rollwright.tasks import Mixture, payload_of
from rollwright.tasks.contamination import (
    AUDIT_RULES,
    AskedText,
    Neighbor,
    Overlap,
    OverlapRules,
    find_overlap,
    nearest_neighbors,
)

__all__ = ["OverlapOrder", "OverlapResult", "audit_tasks", "look_for_overlap", "texts_of_tasks"]

_MOST_AUDITED = 20_000
"""Training tasks of a source that the audit looks at, the first ones drawn: a generator has no end."""
_SPLITS = ("train", "held_out")
_COLUMNS = ("question", "prompt", "problem", "text", "instruction", "messages")
"""Of a file's rows, the first of these that a row has is the task."""
_OF_RUN = """SELECT DISTINCT task_id, payload FROM tasks JOIN (
  SELECT DISTINCT task_id FROM trajectories WHERE purpose IN ({purposes})) USING (task_id) ORDER BY task_id"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapOrder:
    """What `data overlap` was asked for."""

    first: str
    """What is trained on: `RECIPE:train`, a file, or a run folder."""
    second: str
    """What is held out, likewise."""
    rules: OverlapRules
    field: str | None = None
    """Of the files' rows; None: the first that is known."""
    embedding_model: Path | None = None
    worst: int = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OverlapResult:
    """What was found."""

    overlap: Overlap
    neighbors: tuple[tuple[AskedText, AskedText, float], ...] | None
    """First, second and cosine, by falling cosine; None: no model was given."""


def look_for_overlap(order: OverlapOrder) -> OverlapResult:
    """Compare two sources.

    Raises:
        RecipeError: for a source that cannot be read.
    """
    first, second = (
        _texts(one, split, order.field) for one, split in zip((order.first, order.second), _SPLITS, strict=True)
    )
    if not first or not second:
        raise RecipeError(f"{order.second if first else order.first} holds no task; there is nothing to compare.")
    if order.embedding_model is not None and not order.embedding_model.is_dir():
        raise RecipeError(
            f"--embedding-model is {order.embedding_model}, and there is no such folder; give the folder of a model "
            "that was downloaded before."
        )
    overlap = find_overlap(first, second, order.rules, worst=order.worst)
    if order.embedding_model is None:
        return OverlapResult(overlap=overlap, neighbors=None)
    from rollwright.learner.encoder import encode_texts

    vectors = [encode_texts(order.embedding_model, [one.text for one in side]) for side in (first, second)]
    found: tuple[Neighbor, ...] = nearest_neighbors(*vectors, worst=order.worst)
    return OverlapResult(
        overlap=overlap, neighbors=tuple((first[one.first], second[one.second], one.cosine) for one in found)
    )


def audit_tasks(mixture: Mixture) -> Event:
    """Look for the held-out tasks of a run in those that it trains on, once, before its first step.

    Args:
        mixture: of the run; of each source the first tasks drawn.
    """
    first = texts_of_tasks([task for stratum in mixture.strata for task in stratum.train[:_MOST_AUDITED]])
    second = texts_of_tasks([task for stratum in mixture.strata for task in stratum.held_out[:_MOST_AUDITED]])
    found = find_overlap(first, second, AUDIT_RULES, worst=3)
    interval = wilson_interval(found.num_leaked, found.num_second)
    near = found.count("characters")
    text = (
        f"{found.num_leaked} of {found.num_second} held-out tasks stand in {found.num_first} training tasks or share "
        f"{AUDIT_RULES.words} words in a row with one; {near.num} of {near.num_comparable} short ones are nearly one"
    )
    event = event_now("contamination", text, step=0)
    fields = {
        "metric": "data/contamination",
        "value": f"{found.rate:.9g}",
        "low": f"{interval.low:.9g}",
        "high": f"{interval.high:.9g}",
        "revision": AUDIT_RULES.revision,
        "num_train": str(found.num_first),
        "num_held_out": str(found.num_second),
        **{one.kind: f"{one.num}/{one.num_comparable}" for one in found.counts},
        "pairs": json.dumps([[pair.kind, pair.first.id, pair.second.id] for pair in found.pairs]),
    }
    return Event(at=event.at, kind=event.kind, text=event.text, step=0, fields=fields)


def texts_of_tasks(tasks: Sequence[Task]) -> tuple[AskedText, ...]:
    """What each task asks; a system message that all of them share is left out."""
    asked = [(task.task_id, payload_of(task).messages) for task in tasks]
    systems = {tuple(m.text for m in messages if m.role == "system") for _, messages in asked}
    skipped = {"system"} if len(systems) == 1 else set[str]()
    return tuple(
        AskedText(id=name, text="\n".join(m.text for m in messages if m.role not in skipped))
        for name, messages in asked
    )


def _texts(source: str, split: str, field: str | None) -> tuple[AskedText, ...]:
    path = Path(source)
    if path.suffix in (".jsonl", ".json", ".parquet") or path.is_file() and path.suffix != ".toml":
        return _of_file(path, field)
    name, _, chosen = source.rpartition(":") if source.endswith(tuple(f":{s}" for s in _SPLITS)) else (source, "", "")
    if (Path(name) / "manifest.json").exists():
        return _of_run(Path(name), chosen or split)
    if Path(name).is_dir():
        RunFolder.open(Path(name))  # says what is missing
    return _of_recipe(name, chosen or split)


def _of_recipe(name: str, split: str) -> tuple[AskedText, ...]:
    world = build_world(resolve(name).recipe)
    try:
        strata = world.mixture.strata
        tasks = [task for one in strata for task in (one.train if split == "train" else one.held_out)]
    finally:
        world.close()
    return texts_of_tasks(tasks)


def _of_run(run: Path, split: str) -> tuple[AskedText, ...]:
    """Tasks that a run trained on, or was evaluated on."""
    purposes = "'train', 'demonstration'" if split == "train" else "'evaluation'"
    rows = cast("tuple[tuple[str, str], ...]", query(run, _OF_RUN.format(purposes=purposes)).rows)
    return texts_of_tasks(
        [Task(task_id=name, source="stored", revision="1", split=split, payload=payload) for name, payload in rows]
    )


def _of_file(path: Path, field: str | None) -> tuple[AskedText, ...]:
    if not path.is_file():
        raise RecipeError(
            f"no file {path}; give JSON Lines, Parquet, a run folder, or RECIPE:train or RECIPE:held_out."
        )
    rows = _parquet_rows(path) if path.suffix == ".parquet" else _json_rows(path)
    return tuple(AskedText(id=f"{path.name}:{place}", text=_text_of(row, place, path, field)) for place, row in rows)


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row: object = json.loads(line.decode())
            except (ValueError, RecursionError) as error:
                raise RecipeError(f"line {number} of {path} is no JSON: {error}.") from error
            if not isinstance(row, dict):
                raise RecipeError(f"line {number} of {path} is no JSON object; each line holds one task.")
            yield number, cast("dict[str, object]", row)


def _parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    try:
        rows = ParquetFile(str(path)).read().to_pylist()
    except (ValueError, OSError) as error:
        raise RecipeError(f"{path} is no Parquet file that can be read: {error}.") from error
    yield from enumerate(rows, start=1)


def _text_of(row: dict[str, object], place: int, path: Path, field: str | None) -> str:
    names = (field,) if field is not None else _COLUMNS
    for name in names:
        value = row.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "\n".join(_said(one) for one in cast("list[object]", value))
    raise RecipeError(
        f"row {place} of {path} has none of {', '.join(names)} as text or messages; it has "
        f"{', '.join(sorted(row)) or 'nothing'}. Name the field that holds the task by --field."
    )


def _said(message: object) -> str:
    """The text of one message; what the system is told or the model answers is no task."""
    if not isinstance(message, dict):
        return str(message)
    one = cast("dict[str, object]", message)
    return "" if one.get("role") in ("system", "assistant") else str(one.get("content", ""))
