"""Alarms on the metrics of a run, as they are made: entropy collapses, verifiers part ways, lengths grow.

    metrics of a step ──► number of each alarm ──► beyond its limit? ──► so many steps in a row ──► it rises, once

A number is the metric itself, its ratio to the mean of the first steps, or its change from that mean. Of several
updates of a step the one farthest to the side that the bound forbids counts. A step without a value is left out: it
neither rises nor clears an alarm. What an alarm has seen follows from the committed metrics alone, so a run that goes
on is shown those, and rises at the same step as one that was never stopped.
"""

import math
import shlex
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, assert_never

from rollwright.evaluation.gates import judge
from rollwright.evidence import Event, RunFolder
from rollwright.evidence.gates import GateRecord, record_gates
from rollwright.record import Metric
from rollwright.record.gates import Bound, GateVerdict, Measured

__all__ = [
    "ACKNOWLEDGED",
    "RAISED",
    "AlarmRule",
    "AlarmWatch",
    "Observed",
    "Raised",
    "Series",
    "note_raised",
    "pause_sentence",
    "record_of",
]

RAISED = "alarm_raised"
"""The event of an alarm that rose."""
ACKNOWLEDGED = "alarm_acknowledged"
"""The event of a person who has looked at it and lets the run go on."""

_LEAST_SILENT = 5
"""Steps without any value after which an alarm is said to hear nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A metric by name and labels; `model` is `policy` where it is not among them."""

    metric: str
    labels: Mapping[str, str]

    def values(self, metrics: Sequence[Metric]) -> Mapping[int, float]:
        """Of one step: by update, of those that have a value."""
        named = "model" in self.labels
        found: dict[int, float] = {}
        for one in metrics:
            if one.name != self.metric or one.value is None:
                continue
            labels = dict(one.labels)
            if not named and labels.pop("model", "policy") != "policy":
                continue
            if labels == self.labels:
                found[one.update] = one.value
        return found

    def __str__(self) -> str:
        """As a person reads it."""
        told = ", ".join(f"{name} {value}" for name, value in sorted(self.labels.items()))
        return f"{self.metric} ({told})" if told else self.metric


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """One alarm."""

    name: str
    series: Series
    minus: Series | None
    """Subtracted."""
    rule: Literal["threshold", "ratio", "change"]
    first: int
    """Steps with a value that `ratio` and `change` are counted from."""
    in_a_row: int
    bound: Bound
    action: Literal["warn", "pause"]
    label: str
    """Evidence label of the limit."""
    source: str
    """Where the limit comes from."""

    def __str__(self) -> str:
        """What is watched, as a person reads it."""
        what = str(self.series) if self.minus is None else f"{self.series} minus {self.minus}"
        match self.rule:
            case "threshold":
                return what
            case "ratio":
                return f"{what} over {_start(self.first)}"
            case "change":
                return f"change of {what} from {_start(self.first)}"
            case _:
                assert_never(self.rule)

    @property
    def names(self) -> frozenset[str]:
        """Metrics that it reads."""
        return frozenset({self.series.metric} if self.minus is None else {self.series.metric, self.minus.metric})


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """An alarm that rose, or that hears nothing."""

    rule: AlarmRule
    first_step: int
    step: int
    verdict: GateVerdict
    pauses: bool
    """False for one that warns, and for one that a person has acknowledged at this step."""

    def __str__(self) -> str:
        """What a person is told."""
        if self.verdict.measured.value is None:
            return f"alarm {self.rule.name} hears nothing: {self.verdict.because}"
        return (
            f"alarm {self.rule.name} rose at step {self.step}: {self.rule} {self.verdict.because} "
            f"({self.verdict.measured.source})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The metrics of one step."""

    step: int
    metrics: Sequence[Metric]


@dataclass(slots=True, eq=False)
class _State:
    """What one alarm has seen."""

    start: list[float] = field(default_factory=list[float])
    """Values of the first steps."""
    beyond: deque[tuple[int, float, float]] = field(default_factory=deque[tuple[int, float, float]])
    """Step, value and number of the steps in a row that lie beyond the limit."""
    is_up: bool = False
    num_steps: int = 0
    num_numbers: int = 0
    """Steps in which there was something to hold to the limit."""
    is_told: bool = False
    """That it hears nothing."""


class AlarmWatch:
    """The alarms of one run; shown each step of the RL stage once, in order."""

    def __init__(self, rules: Sequence[AlarmRule], acknowledged: frozenset[tuple[str, int]] = frozenset()) -> None:
        """Nothing is seen yet.

        Args:
            rules: one an alarm.
            acknowledged: name and step of alarms that a person has let pass.
        """
        self._rules = tuple(rules)
        self._acknowledged = acknowledged
        self._states = {rule.name: _State() for rule in rules}
        self._names = frozenset(name for rule in rules for name in rule.names)

    @property
    def rules(self) -> tuple[AlarmRule, ...]:
        """What is watched."""
        return self._rules

    @property
    def names(self) -> frozenset[str]:
        """Metrics that the alarms read."""
        return self._names

    def see(self, observed: Observed) -> tuple[Raised, ...]:
        """Take a step in.

        Returns:
            Alarms that rise at this step, each once until it has fallen, and those that hear nothing, once.
        """
        if not self._rules:
            return ()
        metrics = [one for one in observed.metrics if one.name in self._names]
        found = (self._see(rule, self._states[rule.name], observed.step, metrics) for rule in self._rules)
        return tuple(one for one in found if one is not None)

    def _see(self, rule: AlarmRule, state: _State, step: int, metrics: Sequence[Metric]) -> Raised | None:
        state.num_steps += 1
        value = _value(rule, metrics)
        if value is None:
            return self._silent(rule, state, step)
        if rule.rule != "threshold" and len(state.start) < rule.first:
            state.start.append(value)
            return None
        number = _number(rule, state, value)
        if number is None:
            return self._silent(rule, state, step)
        state.num_numbers += 1
        if rule.bound.allows(number):
            state.beyond.clear()
            state.is_up = False
            return None
        state.beyond.append((step, value, number))
        if len(state.beyond) > rule.in_a_row:
            state.beyond.popleft()
        if state.is_up or len(state.beyond) < rule.in_a_row:
            return None
        state.is_up = True
        return self._raised(rule, state)

    def _raised(self, rule: AlarmRule, state: _State) -> Raised:
        first, (last, _, number) = state.beyond[0][0], state.beyond[-1]
        values = ", ".join(f"{value:.4g}" for _, value, _ in state.beyond)
        source = f"step {last}: {values}" if first == last else f"steps {first} to {last}: {values}"
        if state.start:
            source += f"; {_start(rule.first)} {_mean(state.start):.4g}"
        measured = Measured(value=number, num_items=len(state.beyond), source=source)
        return Raised(
            rule=rule,
            first_step=first,
            step=last,
            verdict=judge(rule.name, rule.bound, measured),
            pauses=rule.action == "pause" and (rule.name, last) not in self._acknowledged,
        )

    def _silent(self, rule: AlarmRule, state: _State, step: int) -> Raised | None:
        """Say once that nothing was heard in all the steps that there were."""
        is_early = state.num_steps < max(_LEAST_SILENT, rule.in_a_row)
        if state.is_told or state.num_numbers or is_early:
            return None
        state.is_told = True
        first = step - state.num_steps + 1
        measured = Measured(value=None, num_items=0, source=_why_silent(rule, state, (first, step)))
        return Raised(
            rule=rule,
            first_step=first,
            step=step,
            verdict=judge(rule.name, rule.bound, measured),
            pauses=False,
        )


def record_of(raised: Raised, at: datetime) -> GateRecord:
    """What `gates.json` keeps of an alarm."""
    rule = raised.rule
    action = "none" if raised.verdict.measured.value is None else "pause" if raised.pauses else "warn"
    return GateRecord(
        at=at,
        step=raised.step,
        purpose="alarm",
        what=str(rule),
        verdict=raised.verdict,
        label=rule.label,
        limit_source=rule.source,
        first_step=raised.first_step,
        action=action,
    )


def note_raised(folder: RunFolder, raised: Sequence[Raised], at: datetime, *, in_flight: int) -> None:
    """Keep alarms in the run, as events and as verdicts.

    Args:
        folder: open for writing; the step that they rose at is committed.
        raised: at one step.
        at: now.
        in_flight: groups that had been begun and not ended.
    """
    record_gates(folder.path, [record_of(one, at) for one in raised])
    for one in raised:
        measured = one.verdict.measured
        fields = {
            "alarm": one.rule.name,
            "first_step": str(one.first_step),
            "number": "undefined" if measured.value is None else repr(measured.value),
            "limit": str(one.rule.bound),
            "action": record_of(one, at).action,
            "in_flight": str(in_flight),
        }
        folder.record_event(Event(at=at, kind=RAISED, text=str(one), step=one.step, fields=fields))


def pause_sentence(folder: RunFolder, raised: Sequence[Raised]) -> str:
    """What a person is told of a run that its alarms have stopped, and what can be done."""
    told = "; ".join(str(one) for one in raised)
    path = shlex.quote(str(folder.path))
    names = ", ".join(f"'{name}'" for name in sorted({name for one in raised for name in one.rule.names}))
    return (
        f"the run is paused behind step {raised[0].step}, which is saved with all that it needs to go on: {told}. Look "
        f'into it (`rollwright query {path} "SELECT step, name, labels, value FROM metrics WHERE name IN '
        f'({names}) ORDER BY step DESC LIMIT 50"`), then either start a new run with other settings, or go on by '
        f'`rollwright resume {path} --acknowledge "why it may go on"`.'
    )


def _value(rule: AlarmRule, metrics: Sequence[Metric]) -> float | None:
    """Of the updates of a step, what lies farthest to the side that the bound forbids."""
    values = rule.series.values(metrics)
    if rule.minus is None:
        found = list(values.values())
    else:
        others = rule.minus.values(metrics)
        found = [value - others[update] for update, value in values.items() if update in others]
        if not found and values and others:
            found = [values[max(values)] - others[max(others)]]
    worst = max if rule.bound.side == "at_most" else min
    return worst((value for value in found if not math.isnan(value)), default=None)


def _number(rule: AlarmRule, state: _State, value: float) -> float | None:
    """What is held to the limit; None where it is undefined."""
    match rule.rule:
        case "threshold":
            return value
        case "ratio":
            start = _mean(state.start)
            # A ratio to nothing, or to what points the other way, says nothing.
            return value / start if start > 0 and math.isfinite(start) else None
        case "change":
            number = value - _mean(state.start)
            return None if math.isnan(number) else number
        case _:
            assert_never(rule.rule)


def _why_silent(rule: AlarmRule, state: _State, steps: tuple[int, int]) -> str:
    first, last = steps
    if state.start and len(state.start) == rule.first:
        return f"{_start(rule.first)} is {_mean(state.start):.4g}, and a ratio to that says nothing"
    what = str(rule.series) if rule.minus is None else f"{rule.series} and {rule.minus} together"
    return f"too few of the steps {first} to {last} have a value of {what}"


def _start(first: int) -> str:
    return "that of the first step" if first == 1 else f"the mean of the first {first} steps"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
