"""The manifests of a run: the first in `manifest.json`, one more for each segment in `manifests/segment-0002.json`, ….

A segment is a stretch of a run under one manifest. A file is written once, under a temporary name that is renamed, and
carries the digest of the one before it; each commit carries the digest of the one that it was made under.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rollwright.evidence.durable import disk_errors, sync_folders, write_file
from rollwright.evidence.errors import EvidenceError, NotARunError, SchemaVersionError
from rollwright.evidence.manifest import (
    SCHEMA_VERSION,
    Manifest,
    manifest_from_json,
    manifest_sha256,
    manifest_to_json,
    schema_version_of,
)

__all__ = ["StoredManifest", "abandon_segments", "read_manifests", "write_segment"]

_NAME = re.compile(r"segment-(\d{4,})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredManifest:
    """A manifest with its file."""

    path: Path
    sha256: str
    manifest: Manifest


def read_manifests(root: Path) -> tuple[StoredManifest, ...]:
    """All manifests of a run, in order.

    Raises:
        NotARunError: when there is none.
        SchemaVersionError: when one is of another schema.
        EvidenceError: when one cannot be read, is missing, or does not follow the one before it.
    """
    found = [_read(root, root / "manifest.json")]
    later = [path for path in (root / "manifests").glob("*.json") if _NAME.fullmatch(path.name)]
    for place, path in enumerate(sorted(later, key=_number_of), start=2):
        stored = _read(root, path)
        segment = stored.manifest.segment
        if _number_of(path) != place or segment is None or segment.number != place:
            raise EvidenceError(
                f"{root / 'manifests'}: segment {place} is missing, or {path.name} was renamed; restore it from a "
                "copy of the run."
            )
        if segment.previous_sha256 != found[-1].sha256:
            raise EvidenceError(
                f"{found[-1].path} was edited after the run began; a manifest is frozen. Restore it from a copy, or "
                "start a new run with the changed settings."
            )
        found.append(stored)
    return tuple(found)


def write_segment(root: Path, before: Sequence[StoredManifest], manifest: Manifest) -> None:
    """Write the manifest of a new segment; from its rename on, the run is in that segment.

    Raises:
        EvidenceError: when it does not follow the newest one.
        DiskFullError: when there is no room; then the run is in the segment that it was in.
    """
    segment, number = manifest.segment, len(before) + 1
    if segment is None or (segment.number, segment.previous_sha256) != (number, before[-1].sha256):
        raise EvidenceError(
            f"the next segment of {root} is number {number} after the manifest of digest {before[-1].sha256}; "
            f"it says {segment and (segment.number, segment.previous_sha256)}."
        )
    with disk_errors(f"the manifest of segment {number}", root, 0):
        (root / "manifests").mkdir(exist_ok=True)
        write_file(root / "manifests" / f"segment-{number:04d}.json", manifest_to_json(manifest))
        sync_folders([root / "manifests", root])


def abandon_segments(root: Path, gone: Sequence[StoredManifest]) -> None:
    """Move manifests to `manifests/abandoned`, the last first, so that a kill in between leaves a run that stands."""
    aside = root / "manifests" / "abandoned"
    aside.mkdir(exist_ok=True)
    for one in reversed(gone):
        target, tries = aside / one.path.name, 1
        while target.exists():
            tries += 1
            target = aside / f"{one.path.stem}-{tries}.json"
        one.path.rename(target)
    sync_folders([aside, root / "manifests"])


def _read(root: Path, path: Path) -> StoredManifest:
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NotARunError(
            f"{root} is not a run folder: it has no manifest.json. Give the folder that `rollwright train` printed; "
            "a run that was killed before its manifest was frozen holds nothing and can be deleted."
        ) from None
    version = schema_version_of(content)
    if version != SCHEMA_VERSION:
        raise SchemaVersionError(
            f"{root} is of schema {version}, and this rollwright reads schema {SCHEMA_VERSION}. Use the version that "
            "wrote it (manifest.json names its code commit)."
        )
    return StoredManifest(path=path, sha256=manifest_sha256(content), manifest=manifest_from_json(content, str(path)))


def _number_of(path: Path) -> int:
    return int(path.stem.removeprefix("segment-"))
