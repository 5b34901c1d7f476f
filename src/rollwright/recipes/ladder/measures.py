"""What the gates of a level ask of a run, each a number with its interval where it has one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rollwright.recipes.errors import RecipeError
from rollwright.recipes.ladder.intervals import difference, share
from rollwright.recipes.ladder.plan import Plan
from rollwright.recipes.ladder.view import Attempt, RunView
from rollwright.record.gates import Measured
from rollwright.tasks.contamination import find_overlap

__all__ = ["MEASURES", "Subject", "measure_named", "net_of"]

_FORMAT = "format"
"""Verifier of the asked form."""
_ERROR, _UNSCORED = "error", "no attempt of the last evaluation has a verdict of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A run that a gate is asked of."""

    plan: Plan
    view: RunView
    beside: tuple[RunView, ...]
    """All runs of the level that are no start of others, this one among them."""
    second: str = ""
    """Name of the second verifier in the tables; empty: there is none."""
    missing: tuple[str, ...] = ()
    """What of the documented build has no room, in sentences."""


MeasureFn = Callable[[Subject], Measured]


def net_of(plan: Plan) -> Callable[[Attempt], float]:
    """Success less the price of the calls, of an attempt."""
    return lambda one: float(one.is_success) - plan.price * one.calls


def _success(one: Attempt) -> float:
    return float(one.is_success)


def _gain(subject: Subject) -> Measured:
    view = subject.view
    after, before = view.mean_by_task(view.after, _success), view.mean_by_task(view.before, _success)
    return difference(after, before, "held-out success at the end less that at the start, paired by task")


def _seeds(subject: Subject) -> Measured:
    seeds = {view.run.seed for view in subject.beside if view.run.spec.role == "main"}
    return Measured(value=float(len(seeds)), num_items=len(seeds), source="seeds of the main run")


def _agreement(subject: Subject) -> Measured:
    name, view = subject.second, subject.view
    if not name:
        return Measured(value=None, num_items=0, source="no second verifier is named; give --second")
    judged = [one for one in view.after if name in one.verdicts]
    if not judged:
        return Measured(value=None, num_items=0, source=f"second verifier {name}: {_UNSCORED}")
    by_task = view.mean_by_task(judged, lambda one: float(one.is_success == (one.verdicts[name] >= 1)))
    return share(by_task, f"share of last held-out attempts that {name} judges as the reward does")


def _parseable(subject: Subject) -> Measured:
    view = subject.view
    judged = [one for one in view.after if _FORMAT in one.verdicts]
    if not judged:
        return Measured(value=None, num_items=0, source=f"verifier {_FORMAT}: {_UNSCORED}")
    by_task = view.mean_by_task(judged, lambda one: float(one.verdicts[_FORMAT] >= 1 and not one.invalid_calls))
    return share(by_task, "share of last held-out attempts whose calls all parsed and whose answer has the asked form")


def _imitation(subject: Subject) -> Measured:
    view = subject.view
    by_task = view.mean_by_task(view.after, lambda one: float(one.imitates))
    return share(by_task, "share of last held-out attempts in which the policy opened a message in another's name")


def _observations(subject: Subject) -> Measured:
    view = subject.view
    source = "tokens of tools, environment, user or template with a weight in a loss, by the receipts"
    return Measured(value=float(view.foreign_tokens), num_items=view.weighed_tokens, source=source)


def _audit(subject: Subject) -> Measured:
    found = subject.view.findings
    said = f": {found[0]}" if found else ""
    return Measured(value=float(len(found)), num_items=len(found), source=f"findings of `rollwright check`{said}")


def _leaked(subject: Subject) -> Measured:
    view = subject.view
    num_tasks = len({one.task for one in view.after})
    return Measured(
        value=float(view.leaked), num_items=num_tasks, source="held-out tasks whose cluster is trained on, by id"
    )


def _contamination(subject: Subject) -> Measured:
    asked = subject.view.asked
    held_out = asked.get("held_out", ())
    if not held_out or not asked.get("train"):
        return Measured(
            value=None, num_items=len(held_out), source="the run trained on no task of a split, or held none out"
        )
    found = find_overlap(asked["train"], held_out)
    listed = ", ".join(f"{one.kind} {one.num} of {one.num_comparable}" for one in found.counts)
    source = f"share of held-out questions that stand in what was trained on, as equal words or a run of 13: {listed}"
    return Measured(value=found.rate, num_items=len(held_out), source=source)


def _net_gain(subject: Subject) -> Measured:
    view, net = subject.view, net_of(subject.plan)
    source = f"held-out success less {subject.plan.price:g} a call, at the end less at the start, paired by task"
    return difference(view.mean_by_task(view.after, net), view.mean_by_task(view.before, net), source)


def _recovery(subject: Subject) -> Measured:
    view = subject.view
    after = view.mean_by_task(view.after, _success, _ERROR)
    before = view.mean_by_task(view.before, _success, _ERROR)
    return difference(after, before, f"success on the slice {_ERROR!r}, at the end less at the start, paired by task")


def _extreme(name: str, pick: Callable[[Sequence[float]], float], said: str) -> MeasureFn:
    def measure(subject: Subject) -> Measured:
        values = subject.view.series.get(name, ())
        if not values:
            return Measured(value=None, num_items=0, source=f"metric {name}: no update has it")
        return Measured(value=pick(values), num_items=len(values), source=f"{said} of metric {name} over the updates")

    return measure


def _rise(of: Callable[[Attempt], float], said: str) -> MeasureFn:
    def measure(subject: Subject) -> Measured:
        view = subject.view
        after, before = view.mean_by_task(view.after, of), view.mean_by_task(view.before, of)
        return difference(after, before, f"{said}, at the end less at the start, paired by task")

    return measure


def _invalid(subject: Subject) -> Measured:
    values = subject.view.series.get("env/invalid_action", ())
    if len(values) < 2:  # noqa: PLR2004 - a start and an end
        return Measured(value=None, num_items=len(values), source="metric env/invalid_action: too few updates have it")
    part = max(1, len(values) // 5)
    rise = sum(values[-part:]) / part - sum(values[:part]) / part
    return Measured(
        value=rise, num_items=len(values), source="metric env/invalid_action, last fifth of the updates less the first"
    )


def _disagreement(subject: Subject) -> Measured:
    num, apart, said = subject.view.apart
    if not said:
        return Measured(value=None, num_items=num, source="the environment does not say how its episodes ended")
    source = "share of trained episodes on which the verifier and the environment's own end differ"
    return Measured(value=apart / num, num_items=num, source=source)


def _methods(subject: Subject) -> Measured:
    if subject.missing:
        return Measured(value=None, num_items=len(subject.beside), source="; ".join(subject.missing))
    return Measured(
        value=float(len(subject.beside)), num_items=len(subject.beside), source="methods that were compared"
    )


def _mixture(subject: Subject) -> Measured:
    trained = subject.view.trained
    total = sum(trained.values())
    if not total or len(trained) < 2:  # noqa: PLR2004 - one source is no mixture
        return Measured(value=None, num_items=total, source="fewer than two sources were trained on")
    apart = max(abs(count / total - 1 / len(trained)) for count in trained.values())
    listed = ", ".join(f"{name} {count / total:.3f}" for name, count in trained.items())
    return Measured(value=apart, num_items=total, source=f"largest distance of a trained share from equal: {listed}")


def _domains(subject: Subject) -> Measured:
    """The worst domain: its difference with the interval."""
    view = subject.view
    found: list[Measured] = []
    for name in sorted({one.source for one in view.after}):
        after = view.mean_by_task([one for one in view.after if one.source == name], _success)
        before = view.mean_by_task([one for one in view.before if one.source == name], _success)
        found.append(
            difference(after, before, f"held-out success of {name}, the domain that gained least, less its start")
        )
    unknown = [one for one in found if one.value is None]
    return unknown[0] if unknown else min(found, key=lambda one: one.value or 0.0)


def _protocol(subject: Subject) -> Measured:
    sources = subject.view.sources
    known = {*sources.protocols, sources.frozen}
    source = f"protocols behind its evaluations and its manifest, {sources.frozen[:12]} frozen before the first step"
    return Measured(value=float(len(known)), num_items=len(sources.protocols), source=source)


def _is_cut(one: Attempt) -> float:
    return float(one.reason in ("token_limit", "turn_limit", "wall_clock_limit", "context_limit"))


def _repeats(one: Attempt) -> float:
    return one.repeats / one.turns if one.turns else 0.0


MEASURES: Mapping[str, MeasureFn] = MappingProxyType(
    {
        "gain": _gain,
        "seeds": _seeds,
        "agreement": _agreement,
        "parseable": _parseable,
        "imitation": _imitation,
        "observations": _observations,
        "audit": _audit,
        "leaked_clusters": _leaked,
        "contamination": _contamination,
        "net_gain": _net_gain,
        "recovery": _recovery,
        "entropy_low": _extreme("entropy/sampled", min, "smallest value"),
        "entropy_high": _extreme("entropy/sampled", max, "largest value"),
        "length_low": _extreme("len/response", min, "smallest value"),
        "length_high": _extreme("len/response", max, "largest value"),
        "invalid_actions": _invalid,
        "loops": _rise(_repeats, "share of turns in a state seen before"),
        "cut": _rise(_is_cut, "share of held-out attempts that a limit cut"),
        "disagreement": _disagreement,
        "methods": _methods,
        "mixture": _mixture,
        "domains": _domains,
        "protocol": _protocol,
    }
)
"""What a plan may ask, by name."""


def measure_named(name: str) -> MeasureFn:
    """A measure.

    Raises:
        RecipeError: for a name that there is not.
    """
    if name not in MEASURES:
        raise RecipeError(f"a plan asks {name!r}, which is no measure; there are {', '.join(MEASURES)}.")
    return MEASURES[name]
