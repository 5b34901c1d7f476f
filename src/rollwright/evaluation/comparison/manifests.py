"""In what runs differ before a number is looked at: their manifests, by what each field is about."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollwright.evidence import Manifest, manifest_differences

__all__ = ["SECTIONS", "ManifestField", "differing_fields", "equal_sections", "folded_fields"]

_ABSENT = "absent"
_FOLDED_FROM = 4
"""Keys of one table from which it is told in one line."""

_PREFIXES = (
    ("seeds", ("seeds.", "configuration.run.seed", "configuration.evaluation.seed")),
    ("code", ("run.code", "run.framework_versions", "run.container", "run.cuda", "digests.", "schema_version")),
    ("model", ("model.", "configuration.model", "run.parent")),
    ("data", ("data.", "configuration.tasks", "run.source")),
    ("environment", ("environment.", "configuration.environment")),
    ("reward", ("reward.", "configuration.verifier")),
    ("evaluation", ("evaluation.", "configuration.evaluation")),
    ("machine", ("machine.", "configuration.runtime.threads")),
    ("gates", ("configuration.gates", "configuration.alarms")),
    ("exporters", ("configuration.exporters",)),
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


def folded_fields(fields: Sequence[ManifestField], manifests: Sequence[Manifest]) -> tuple[ManifestField, ...]:
    """The fields as a person reads them: one line for a table of many keys that a run lacks altogether.

    Args:
        fields: in which the runs differ.
        manifests: of these runs, in the same order.

    Returns:
        Fields in the order given, each folded table where its first key was.
    """
    tables = [{_table(f"configuration.{one.key}") for one in manifest.configuration} for manifest in manifests]
    found: dict[object, list[ManifestField]] = {}
    for field in fields:
        table = _table(field.path)
        lacking = tuple(value == _ABSENT for value in field.values)
        is_whole = any(lacking) and all(
            is_absent == (table not in has) for is_absent, has in zip(lacking, tables, strict=True)
        )
        found.setdefault((_list_of(table), lacking) if is_whole else field.path, []).append(field)
    return tuple(one for group in found.values() for one in _folded(group))


def _folded(group: Sequence[ManifestField]) -> Sequence[ManifestField]:
    if len(group) < _FOLDED_FROM:
        return group
    tables = list(dict.fromkeys(_table(field.path) for field in group))
    name = _list_of(tables[0])
    said = f"{len(group)} keys" if tables == [name] else f"{len(tables)} of {len(group)} keys"
    values = tuple(_ABSENT if value == _ABSENT else said for value in group[0].values)
    return (ManifestField(section=group[0].section, path=name, values=values),)


def _table(path: str) -> str:
    """Of a key of the configuration, its section, or its item of a list; any other field stands for itself."""
    parts = path.split(".")
    if parts[0] != "configuration" or len(parts) < 3:
        return path
    return ".".join(parts[: 3 if parts[2].isdecimal() else 2])


def _list_of(table: str) -> str:
    head, _, last = table.rpartition(".")
    return head if last.isdecimal() and table.startswith("configuration.") else table


def _section(path: str) -> str:
    return next((name for name, prefixes in _PREFIXES if path.startswith(prefixes)), _OTHER)
