"""The folder of a promoted checkpoint: what `transformers` loads, a card in claim language, and the evidence as JSON.

Written under a temporary name, synced, and renamed: it is there whole, or not at all.
"""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rollwright.evaluation.gates_of_runs import JudgedGate
from rollwright.evidence import Checkpoint, Event, RunFolder, ShardError, StoredEvaluation
from rollwright.evidence.durable import disk_errors, partial_of, sync_files, sync_folders
from rollwright.evidence.shards import file_sha256
from rollwright.recipes.promoted_card import card
from rollwright.runtime.alarms import ACKNOWLEDGED, RAISED

__all__ = ["PromotedCheckpoint", "write_promoted"]

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_STAYS = frozenset({"checkpoint.json", "progress.json"})
"""Of the run's bookkeeping; the training state is a folder, and folders stay too."""
_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotedCheckpoint:
    """What leaves, and why it may."""

    folder: RunFolder
    checkpoint: Checkpoint
    evaluated: StoredEvaluation
    """By the run's own protocol."""
    judged: tuple[JudgedGate, ...]
    promoted_at: datetime


def write_promoted(promoted: PromotedCheckpoint, destination: Path, *, before_naming: Callable[[], None]) -> None:
    """Write the folder of a checkpoint that passed.

    Args:
        promoted: the checkpoint, with its verdicts.
        destination: a folder that does not exist, or is empty.
        before_naming: called when all is written and nothing has its name yet.

    Raises:
        ShardError: when a file changed while it was copied.
        DiskFullError: when there is no room; then nothing stays.
    """
    destination = destination.absolute()
    temporary = partial_of(destination)
    files = [path for path in sorted(promoted.checkpoint.path.iterdir()) if path.is_file() and path.name not in _STAYS]
    with disk_errors("the promoted checkpoint", _there(destination), sum(path.stat().st_size for path in files)):
        destination.parent.mkdir(parents=True, exist_ok=True)
        if temporary.exists():
            shutil.rmtree(temporary)  # what a killed promotion left
        try:
            temporary.mkdir()
            digests = {path.name: _copied(path, temporary / path.name) for path in files}
            proof = evidence_of(promoted, digests)
            (temporary / "evidence.json").write_text(json.dumps(proof, indent=1, allow_nan=False) + "\n", "utf-8")
            (temporary / "README.md").write_text(card(proof), "utf-8")
            sync_files(sorted(temporary.iterdir()))
            sync_folders([temporary])
            before_naming()
            temporary.rename(destination)
            sync_folders([destination.parent])
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def evidence_of(promoted: PromotedCheckpoint, digests: dict[str, str]) -> dict[str, Json]:
    """Everything that the card says, for a machine: what was promoted, under which gates, from which run.

    Args:
        promoted: the checkpoint, with its verdicts.
        digests: of the files that leave, by name.
    """
    folder, evaluated = promoted.folder, promoted.evaluated
    began, manifest = folder.manifests[0], folder.manifest
    step = promoted.checkpoint.step
    return {
        "schema_version": _SCHEMA_VERSION,
        "promoted_at": promoted.promoted_at.isoformat(),
        "run": {
            "run_id": began.run.run_id,
            "recipe": _configured(promoted, "run.name"),
            "title": _configured(promoted, "run.title"),
            "seed": began.seeds.get("run"),
            "step": step,
            "commit": promoted.checkpoint.commit,
            "checkpoint_sha256": promoted.checkpoint.sha256,
            "code_commit": manifest.run.code_commit,
            "config_sha256": manifest.run.config_sha256,
            "manifest_sha256": folder.newest_manifest_sha256,
            "segments": len(folder.manifests),
            "container_digests": list(manifest.run.container_digests) or "unknown",
        },
        "model": {
            "architecture": manifest.model.architecture,
            "num_parameters": manifest.model.num_parameters,
            "initial_weights_sha256": manifest.model.initial_weights_sha256,
            "tokenizer_revision": manifest.model.tokenizer_revision,
            "files": {name: digest for name, digest in sorted(digests.items())},
        },
        "data": [
            {"id": one.id, "revision": one.revision, "license": one.license} for one in manifest.data.prompt_sources
        ],
        "environment": {"name": manifest.environment.name, "revision": manifest.environment.revision},
        "reward": {"rule": manifest.reward.rule, "verifiers": dict(manifest.reward.verifier_revisions)},
        "protocol": {
            "name": evaluated.protocol,
            "sha256": evaluated.protocol_sha256,
            "evaluation": evaluated.name,
            "facts": {name: text for name, text in sorted(evaluated.facts.items())},
        },
        "figures": [
            {
                "measure": row.metric,
                "value": _number(row.value),
                "low": _number(row.low),
                "high": _number(row.high),
                "level": round(row.level, 6),
                "interval": row.interval_method,
                "num_tasks": row.num_tasks,
                "num_unscored": row.num_unscored,
            }
            for row in evaluated.rows
            if not row.labels
        ],
        "gates": [_gate(one) for one in promoted.judged],
        "alarms": [_alarm(one) for one in folder.events() if one.kind in (RAISED, ACKNOWLEDGED) and _is_of(one, step)],
    }


def _gate(one: JudgedGate) -> dict[str, Json]:
    bound, measured = one.verdict.bound, one.verdict.measured
    return {
        "gate": one.gate.name,
        "what": one.what,
        "bound": bound.side,
        "limit": bound.limit,
        "label": one.gate.label,
        "source": one.gate.source,
        "outcome": one.verdict.outcome,
        "value": _number(measured.value),
        "low": _number(measured.low),
        "high": _number(measured.high),
        "level": measured.level,
        "num_items": measured.num_items,
        "from": measured.source,
        "because": one.verdict.because,
    }


def _alarm(event: Event) -> dict[str, Json]:
    return {"kind": event.kind, "step": event.step, "text": event.text}


def _is_of(event: Event, step: int) -> bool:
    return event.step is not None and event.step <= step


def _configured(promoted: PromotedCheckpoint, key: str) -> Json:
    values = {one.key: one.value for one in promoted.folder.manifests[0].configuration}
    return str(json.loads(values[key])) if key in values else "unknown"


def _number(value: float | None) -> Json:
    return value if value is None or math.isfinite(value) else str(value)


def _copied(source: Path, to: Path) -> str:
    shutil.copyfile(source, to)
    digest = file_sha256(to)
    if digest != file_sha256(source):
        raise ShardError(f"{source} changed while it was copied; promote the checkpoint again.")
    return digest


def _there(path: Path) -> Path:
    """The nearest folder above that exists."""
    return next(parent for parent in path.parents if parent.exists())
