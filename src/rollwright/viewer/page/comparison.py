"""Several runs side by side: what differs in their manifests first, then what they reached."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rollwright.evidence import Manifest, manifest_differences
from rollwright.evidence.following import Look, Row
from rollwright.viewer.page.run_summary import held_out

__all__ = ["ComparedField", "ComparedResult", "compare_manifests", "compare_results"]

_LESS_TELLING: Final = ("digests.", "run.code", "machine.", "run.framework_versions.")
_DIGESTS: Final = ("sha256", "_commit")
_METRICS: Final = ("success", "reward", "tool_use", "tool_calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedField:
    """One field in which at least two of the manifests differ."""

    path: str
    values: tuple[str, ...]
    """One a run."""
    is_telling: bool
    """False for digests, versions and the machine, which differ without an experiment being another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedResult:
    """One held-out metric by one protocol, as last measured in each run."""

    metric: str
    protocol: str
    protocol_sha256: str
    rows: tuple[Row | None, ...]
    """One a run; None: that run was not measured by this protocol."""


def compare_manifests(manifests: Sequence[Manifest]) -> tuple[ComparedField, ...]:
    """Fields by path, the telling ones first; identity, times and memory are not compared."""
    first, *others = manifests
    found: dict[str, dict[int, str]] = {}
    for at, other in enumerate(others, start=1):
        for difference in manifest_differences(first, other):
            values = found.setdefault(difference.path, {0: difference.stored})
            values[at] = difference.now
    fields = [
        ComparedField(
            path=path,
            values=tuple(values.get(at, values[0]) for at in range(len(manifests))),
            is_telling=not (path.startswith(_LESS_TELLING) or path.endswith(_DIGESTS)),
        )
        for path, values in found.items()
    ]
    return tuple(sorted(fields, key=lambda f: (not f.is_telling, f.path)))


def compare_results(looks: Sequence[Look]) -> tuple[ComparedResult, ...]:
    """The newest result of each run by each protocol; numbers of different protocols never share a line."""
    found: list[ComparedResult] = []
    for metric in _METRICS:
        by_run: list[Mapping[tuple[str, str], Row]] = [
            {(row["protocol"], row["protocol_sha256"]): row for row in held_out(look, metric)} for look in looks
        ]
        protocols = dict.fromkeys(key for rows in by_run for key in rows)
        found += [
            ComparedResult(
                metric=metric,
                protocol=name,
                protocol_sha256=digest,
                rows=tuple(rows.get((name, digest)) for rows in by_run),
            )
            for name, digest in protocols
        ]
    return tuple(found)
