"""Gates: conditions on evidence that a run is begun with."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from rollwright.recipes.config.strict import StrictConfig
from rollwright.record.metrics import METRICS, STRATA, MetricEntry, metric_named

__all__ = [
    "AuditGateConfig",
    "EvaluationGateConfig",
    "GateConfig",
    "KeptAuditGateConfig",
    "LimitConfig",
    "MetricGateConfig",
    "PairedGateConfig",
    "check_series",
    "refuse_contradictions",
]

_FRACTIONS = ("success", "gold_success", "pass_at_k", "pass_hat_k", "maj_at_k", "avg_at_n", "tool_use")
"""Measures of an evaluation that lie from 0 to 1."""
_OF_BOUND = {"name", "bound", "limit", "label", "source"}
_WINDOWED = ("mean", "change")


class LimitConfig(StrictConfig):
    """A limit, fixed before the run, and where it comes from."""

    name: str = Field(max_length=80, pattern=r"^[^\s\p{Cc}]([^\p{Cc}\p{Zl}\p{Zp}]*[^\s\p{Cc}])?$")
    """At most 80 characters on one line, without control characters."""
    bound: Literal["at_least", "at_most"]
    """On which side of `limit` the number has to lie."""
    limit: float
    label: Literal["D", "C", "I", "U"] = "I"
    """Evidence label of the limit: D disclosed by its source, C confirmed in a released artifact, I inferred or chosen
    here, U unknown."""
    source: str = Field(min_length=1)
    """Where the limit comes from, in a sentence."""


class MetricGateConfig(LimitConfig):
    """A metric over the steps of the RL stage."""

    kind: Literal["metric"] = "metric"
    metric: str
    """As runs write it; `rollwright query RUN "SELECT DISTINCT name FROM metrics"` lists what a run has."""
    labels: dict[str, str] = {}
    """All that its rows carry beside `model`, which is `policy` where it is not named."""
    over: Literal["last", "mean", "max", "min", "slope", "change"] = "last"
    """How a number is taken over the steps: `mean` of the last `window`; `slope` by least squares, a step; `change` of
    the mean of the last `window` from that of the first `window`."""
    window: int = Field(default=5, ge=1, le=1_000_000)
    """Steps with a value, of `mean` and `change`."""
    since: Literal["start", "warm_start"] = "warm_start"
    """Where the first steps of `change` lie: at the start of the run, or behind the warm start."""

    @model_validator(mode="after")
    def _is_written(self) -> "MetricGateConfig":
        check_series(self.metric, self.labels)
        if self.over not in _WINDOWED and self.window != 5:
            raise ValueError(f"window is of over 'mean' and 'change'; over is {self.over!r}, so leave window out")
        if self.over != "change" and self.since != "warm_start":
            raise ValueError(f"since is of over 'change'; over is {self.over!r}, so leave since out")
        return self


class EvaluationGateConfig(LimitConfig):
    """A measure of the frozen protocol."""

    kind: Literal["evaluation"] = "evaluation"
    measure: str = "success"
    labels: dict[str, str] = {}
    """All that its rows carry, such as `slice` or `k`."""
    protocol: str = ""
    """Empty: the run's own."""
    by: Literal["interval", "value", "low", "high"] = "interval"
    """What is held to the limit: both ends of the interval, the number alone, or one end alone."""

    @model_validator(mode="after")
    def _is_measured(self) -> "EvaluationGateConfig":
        entry = next((m for m in METRICS if m.name == self.measure and m.table == "evaluations"), None)
        if entry is None:
            known = ", ".join(m.name for m in METRICS if m.table == "evaluations")
            raise ValueError(f"measure is {self.measure!r}; an evaluation measures {known}")
        _check_labels(entry, self.labels)
        if self.measure in _FRACTIONS:
            _check_range(self, self.measure, 0.0, 1.0)
        return self


class PairedGateConfig(LimitConfig):
    """The difference to an earlier evaluation of the run, task by task."""

    kind: Literal["paired"] = "paired"
    measure: Literal["success", "reward"] = "success"
    since: Literal["start", "warm_start"] = "warm_start"
    """What it is compared with: the run's first evaluation, or the last before the RL stage."""

    @model_validator(mode="after")
    def _can_pass(self) -> "PairedGateConfig":
        if self.measure == "success":
            _check_range(self, "a difference of success", -1.0, 1.0)
        return self


class AuditGateConfig(LimitConfig):
    """What a second verifier says of the evaluated episodes."""

    kind: Literal["audit"] = "audit"
    figure: Literal["disagreement", "false_accepts", "hack_gap"] = "disagreement"
    """Share of episodes on which reward and verifier disagree; share of accepted episodes that the verifier does not
    accept; mean reward minus mean of the verifier."""
    verifier: str
    """A part of weight 0, or one that `rollwright score` asked."""
    accepts_at: float = 1.0
    """Value from which it accepts."""

    @model_validator(mode="after")
    def _can_pass(self) -> "AuditGateConfig":
        if self.figure != "hack_gap":
            _check_range(self, self.figure, 0.0, 1.0)
        return self


class KeptAuditGateConfig(LimitConfig):
    """A figure of an audit that `rollwright audit RUN --keep` kept with the run; of several, that of most items."""

    kind: Literal["kept_audit"] = "kept_audit"
    figure: Literal["disagreement", "fp_rate", "fn_rate", "flaky_rate", "ipt_fail", "hack_gap", "hack_confirmed"]
    """As `verifier/FIGURE` in the list of metrics."""
    labels: dict[str, str] = {}
    """All that its rows carry beside the audit's number, such as `verifier`, `transform` or `of`."""


GateConfig = Annotated[
    MetricGateConfig | EvaluationGateConfig | PairedGateConfig | AuditGateConfig | KeptAuditGateConfig,
    Field(discriminator="kind"),
]


def refuse_contradictions(gates: Sequence[LimitConfig]) -> None:
    """Refuse two gates on one number that no number passes.

    Raises:
        ValueError: naming both.
    """
    for place, one in enumerate(gates):
        for other in gates[place + 1 :]:
            low, high = (one, other) if one.bound == "at_least" else (other, one)
            is_same = one.model_dump(exclude=_OF_BOUND) == other.model_dump(exclude=_OF_BOUND)
            if is_same and low.bound == "at_least" and high.bound == "at_most" and low.limit > high.limit:
                raise ValueError(
                    f"gates {low.name!r} and {high.name!r} ask one number to be at least {low.limit:g} and at most "
                    f"{high.limit:g}, which none is; change a limit"
                )


def _check_range(gate: LimitConfig, what: str, least: float, most: float) -> None:
    if (gate.bound == "at_least" and gate.limit > most) or (gate.bound == "at_most" and gate.limit < least):
        raise ValueError(
            f"{what} lies from {least:g} to {most:g}, so it is never {gate.bound.replace('_', ' ')} {gate.limit:g}; "
            "give a limit within"
        )


def check_series(metric: str, labels: dict[str, str]) -> None:
    """Refuse a metric that no run writes.

    Raises:
        ValueError: saying which name is meant, or which labels the metric has.
    """
    entry = metric_named(metric)
    if entry is None:
        raise ValueError(f"metric is {metric!r}, which is not in the list of metrics (docs/reference/metrics.md)")
    if entry.name != metric:
        raise ValueError(f"metric is {metric!r}; runs write it as {entry.name!r}")
    if entry.table == "evaluations":
        raise ValueError(f"{metric!r} is a measure of an evaluation; give a gate of kind 'evaluation' for it")
    if entry.later:
        raise ValueError(f"metric is {metric!r}, which nothing writes yet (it is of the room {entry.later})")
    _check_labels(entry, labels)


def _check_labels(entry: MetricEntry, labels: dict[str, str]) -> None:
    of_tokens = ("model", *entry.strata) if entry.table == "metrics" else ()
    known = tuple(dict.fromkeys((*entry.labels, *of_tokens)))
    wrong = sorted(name for name in labels if name not in known)
    if wrong:
        strata = f" ({', '.join(STRATA)} where it is stratified)" if entry.table == "metrics" else ""
        raise ValueError(f"{entry.name!r} has no label {wrong[0]!r}; it has {', '.join(known) or 'none'}{strata}")
