"""Rows of metrics and evaluations as plain names: `reward/total`, `stale/lag.stat:max`, `eval/held-out/success.low`.

No name is the beginning of another up to a slash: some services keep names as paths.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from rollwright.evidence.gates import GateRecord
from rollwright.recipes.exporters.aliases import alias_of
from rollwright.record import EvaluationRow, Metric

__all__ = ["Names", "evaluation_values", "gate_values", "renamed", "step_values"]

Names = Literal["rollwright", "trl", "verl"]
"""Whose names are used; what the others have no name for keeps ours, behind `rollwright/`."""

_ITSELF = ("model", "policy")
"""The label of the model that is trained; a name without it means that one."""

_OUTCOMES = {"passed": 1.0, "failed": 0.0}


def step_values(metrics: Sequence[Metric]) -> dict[str, float | None]:
    """Name to value, of one step; of what each update measures, the mean over the updates.

    Args:
        metrics: all of a step.

    Returns:
        None where a value is undefined.
    """
    found: defaultdict[str, list[float | None]] = defaultdict(list)
    for metric in metrics:
        found[_name(metric.name, metric.labels)].append(metric.value)
    return {name: _mean(values) for name, values in found.items()}


def evaluation_values(rows: Sequence[EvaluationRow]) -> dict[str, float | None]:
    """Name to value, of one evaluation; an interval stands beside its value as `….low` and `….high`."""
    found: dict[str, float | None] = {}
    for row in rows:
        name = _name(f"eval/{row.protocol}/{row.metric}", row.labels)
        found[name] = row.value
        if row.low is not None and row.high is not None:
            found[f"{name}.low"], found[f"{name}.high"] = row.low, row.high
    return found


def gate_values(records: Sequence[GateRecord]) -> dict[str, float | None]:
    """`gate/NAME`: 1 passed, 0 failed, undefined where there is not enough evidence; and what was measured."""
    values: dict[str, float | None] = {}
    for record in records:
        verdict = record.verdict
        name = _word(f"gate/{verdict.gate}")
        values[name] = _OUTCOMES.get(verdict.outcome)
        values[f"{name}.measured"] = verdict.measured.value
    return values


def renamed(values: Mapping[str, float | None], names: Names) -> dict[str, float]:
    """The defined values under the chosen names."""
    defined = {name: value for name, value in values.items() if value is not None}
    if names == "rollwright":
        return defined
    return {alias_of(name, names) or f"rollwright/{name}": value for name, value in defined.items()}


def _name(name: str, labels: Mapping[str, str]) -> str:
    told = [f"{key}:{_word(value)}" for key, value in sorted(labels.items()) if (key, value) != _ITSELF]
    return ".".join([_word(name), *told])


@lru_cache(maxsize=4096)
def _word(text: str) -> str:
    """What every service takes in a name."""
    return "".join(letter if letter.isalnum() or letter in "_-./ :" else "_" for letter in text)


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None
