"""In what runs differ before a number is looked at: their manifests, by what each field is about."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollwright.evidence import Manifest, manifest_differences

__all__ = ["SECTIONS", "ManifestField", "differing_fields", "equal_sections"]

_PREFIXES = (
    ("seeds", ("seeds.", "configuration.run.seed", "configuration.evaluation.seed")),
    ("code", ("run.code", "run.framework_versions", "run.container", "run.cuda", "digests.", "schema_version")),
    ("model", ("model.", "configuration.model", "run.parent")),
    ("data", ("data.", "configuration.tasks", "run.source")),
    ("environment", ("environment.", "configuration.environment")),
    ("reward", ("reward.", "configuration.verifier")),
    ("evaluation", ("evaluation.", "configuration.evaluation")),
    ("machine", ("machine.", "configuration.runtime.threads")),
    ("algorithm", ("algorithm", "configuration.", "eligible", "receipts", "is_deterministic")),
)
"""A field belongs to the first that it begins with."""
_OTHER = "other"
SECTIONS = (*(name for name, _ in _PREFIXES), _OTHER)
_NAMES = ("configuration.run.name", "configuration.run.title", "run.config_sha256")
"""What is different wherever anything is, and says nothing by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestField:
    """One field in which runs differ."""

    section: str
    path: str
    values: tuple[str, ...]
    """Of each run, in the order given."""


def differing_fields(manifests: Sequence[Manifest]) -> tuple[ManifestField, ...]:
    """Fields in which any run differs from the first, by section and path.

    Args:
        manifests: of the runs, at least one; each that of its newest segment.
    """
    values: dict[str, list[str | None]] = {}
    for place, other in enumerate(manifests[1:], start=1):
        for found in manifest_differences(manifests[0], other):
            row = values.setdefault(found.path, [None] * len(manifests))
            row[0], row[place] = found.stored, found.now
    fields = [
        ManifestField(
            section=_section(path), path=path, values=tuple(row[0] or "" if one is None else one for one in row)
        )
        for path, row in values.items()
        if path not in _NAMES
    ]
    return tuple(sorted(fields, key=lambda one: (SECTIONS.index(one.section), one.path)))


def equal_sections(fields: Sequence[ManifestField]) -> tuple[str, ...]:
    """The sections in which nothing differs."""
    differing = {field.section for field in fields}
    return tuple(name for name in SECTIONS if name not in differing and name != _OTHER)


def _section(path: str) -> str:
    return next((name for name, prefixes in _PREFIXES if path.startswith(prefixes)), _OTHER)
