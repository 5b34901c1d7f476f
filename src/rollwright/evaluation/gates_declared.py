"""The gates that a run was begun with, as its manifest holds them: fixed before the first step, and read from there."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, assert_never, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rollwright.evidence import EvidenceError, Manifest
from rollwright.record.gates import Bound

__all__ = [
    "AuditSubject",
    "EvaluationSubject",
    "Gate",
    "KeptAuditSubject",
    "MetricSubject",
    "PairedSubject",
    "Since",
    "StageSteps",
    "Subject",
    "configured",
    "gates_of",
    "rl_steps_of",
    "what_of",
]

Since = Literal["start", "warm_start"]
"""What a change is counted from: the first number of the run, or what the warm start left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSubject:
    """A metric of the typed list over the steps of the RL stage; of several updates of a step the last counts."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["metric"]
    metric: str
    labels: Mapping[str, str]
    """All that its rows carry beside `model`, which is `policy` where it is not named."""
    over: Literal["last", "mean", "max", "min", "slope", "change"]
    window: int
    """Steps with a value that `mean` takes, and `change` at both its ends."""
    since: Since
    """Of `change`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSubject:
    """A measure of the frozen protocol, of the weights that are judged."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["evaluation"]
    measure: str
    labels: Mapping[str, str]
    protocol: str
    """Empty: the run's own."""
    by: Literal["interval", "value", "low", "high"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedSubject:
    """Difference to an earlier evaluation of the run, task by task."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["paired"]
    measure: Literal["success", "reward"]
    since: Since


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSubject:
    """What a second verifier says of the evaluated episodes: a part of weight 0, or one of a later scoring."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["audit"]
    figure: Literal["disagreement", "false_accepts", "hack_gap"]
    verifier: str
    accepts_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAuditSubject:
    """A figure of an audit that was kept with the run up to the judged step; of several, the one of most items."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["kept_audit"]
    figure: Literal["disagreement", "fp_rate", "fn_rate", "flaky_rate", "ipt_fail", "hack_gap", "hack_confirmed"]
    labels: Mapping[str, str]
    """All that its rows carry beside the audit's number and the end of an interval."""


Subject = MetricSubject | EvaluationSubject | PairedSubject | AuditSubject | KeptAuditSubject


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A condition on evidence."""

    name: str
    subject: Subject
    bound: Bound
    label: str
    """Evidence label of the limit."""
    source: str
    """Where the limit comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSteps:
    """Steps of a stage, both ends within."""

    first: int
    last: int


_SUBJECT: TypeAdapter[Subject] = TypeAdapter(Subject)
_COMMON = ("name", "bound", "limit", "label", "source")


def gates_of(manifest: Manifest) -> tuple[Gate, ...]:
    """The gates, in the order declared.

    Args:
        manifest: of the run's first segment.

    Raises:
        EvidenceError: for gates that this version cannot read.
    """
    return tuple(_gate(tree) for tree in configured(manifest, "gates"))


def rl_steps_of(manifest: Manifest) -> StageSteps:
    """The steps that metrics are judged over: those of the RL stage; all of them where there is none.

    Args:
        manifest: of the run's newest segment, which may have more steps than the first.
    """
    steps = int(cast("int", _values(manifest).get("run.steps", 1)))
    before = 0
    for stage in configured(manifest, "stages"):
        if stage["kind"] == "rl":
            return StageSteps(first=before + 1, last=before + steps)
        before += int(cast("int", stage["steps"]))
    return StageSteps(first=1, last=max(before, 1))


def configured(manifest: Manifest, section: str) -> tuple[dict[str, object], ...]:
    """The tables of a list of the configuration, in order; what lies deeper is a table of a table."""
    found: dict[int, dict[str, object]] = {}
    for key, value in _values(manifest).items():
        head, *path = key.split(".")
        if head != section or len(path) < 2:
            continue
        here = found.setdefault(int(path[0]), {})
        for name in path[1:-1]:
            here = cast("dict[str, object]", here.setdefault(name, {}))
        here[path[-1]] = value
    return tuple(found[place] for place in sorted(found))


def what_of(subject: Subject) -> str:
    """What is measured, as a person says it."""
    match subject:
        case MetricSubject():
            return f"{_taken(subject)} of {subject.metric}{_labels(subject.labels)}"
        case EvaluationSubject():
            end = {"interval": "", "value": ", without its interval", "low": ", low end", "high": ", high end"}
            protocol = subject.protocol or "the frozen protocol"
            return f"{subject.measure}{_labels(subject.labels)} under {protocol}{end[subject.by]}"
        case PairedSubject():
            return f"{subject.measure} beside that of {_SINCE[subject.since]}, task by task"
        case AuditSubject():
            return f"{_FIGURES[subject.figure]} {subject.verifier}"
        case KeptAuditSubject():
            return f"verifier/{subject.figure}{_labels(subject.labels)} of the audit of most items"
        case _:
            assert_never(subject)


_SINCE: Mapping[Since, str] = {"start": "the first evaluation", "warm_start": "the end of the warm start"}
_FIGURES = {
    "disagreement": "share of evaluated episodes on which the reward disagrees with",
    "false_accepts": "share of accepted episodes that are not accepted by",
    "hack_gap": "mean reward minus the mean of",
}


def _taken(subject: MetricSubject) -> str:
    match subject.over:
        case "mean":
            return f"mean of the last {subject.window} steps"
        case "change":
            since = "the first of the run" if subject.since == "start" else "the first behind the warm start"
            return f"change of the last {subject.window} steps from {since}"
        case "slope":
            return "slope a step"
        case "last" | "max" | "min":
            return subject.over
        case _:
            assert_never(subject.over)


def _labels(labels: Mapping[str, str]) -> str:
    return f" ({', '.join(f'{name} {value}' for name, value in sorted(labels.items()))})" if labels else ""


def _gate(tree: Mapping[str, object]) -> Gate:
    try:
        return Gate(
            name=str(tree["name"]),
            subject=_SUBJECT.validate_python({key: value for key, value in tree.items() if key not in _COMMON}),
            bound=Bound(side=_side(tree["bound"]), limit=float(cast("float", tree["limit"]))),
            label=str(tree["label"]),
            source=str(tree["source"]),
        )
    except (KeyError, ValidationError) as error:
        raise EvidenceError(
            f"the manifest has a gate that this rollwright cannot read: {dict(tree)}. Judge the run with the version "
            "that began it (manifest.json names its code commit)."
        ) from error


def _side(bound: object) -> Literal["at_least", "at_most"]:
    if bound == "at_least":
        return "at_least"
    if bound == "at_most":
        return "at_most"
    raise KeyError(bound)


def _values(manifest: Manifest) -> dict[str, object]:
    return {one.key: json.loads(one.value) for one in manifest.configuration}
