"""The tables of a level's report: its runs, and what the level compares."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from rollwright.recipes.ladder.factorial import effects_table
from rollwright.recipes.ladder.intervals import difference, share
from rollwright.recipes.ladder.measures import net_of
from rollwright.recipes.ladder.plan import Plan
from rollwright.recipes.ladder.report import Table
from rollwright.recipes.ladder.view import Attempt, RunView
from rollwright.record.gates import Measured

__all__ = ["tables_of"]

_BINS = 10
_QUARTERS = 4
TablesFn = Callable[[Plan, Sequence[RunView]], Iterator[Table]]


def tables_of(plan: Plan, views: Sequence[RunView]) -> tuple[Table, ...]:
    """Every table of a level.

    Args:
        plan: of the level.
        views: of all its runs, starts included.
    """
    tables = [_runs(views)]
    if plan.number in _OF_LEVEL:
        tables += _OF_LEVEL[plan.number](plan, [view for view in views if view.run.spec.role != "start"])
    return tuple(tables)


def _runs(views: Sequence[RunView]) -> Table:
    rows = [
        (
            view.run.name,
            str(view.run.seed),
            _number(_success(view, view.before)),
            _number(_success(view, view.after)),
            _range(view.series.get("entropy/sampled", ())),
            _range(view.series.get("len/response", ())),
            f"{view.seconds:.0f}",
        )
        for view in views
    ]
    header = ("run", "seed", "success at the start", "at the end", "entropy, nats", "response, tokens", "seconds")
    return Table(title="Runs", header=header, rows=tuple(rows))


def _bases(plan: Plan, views: Sequence[RunView]) -> Iterator[Table]:
    """Level 1: what the weights could before, with and without the instruction, and after."""
    rows = [("raw base" if view.run.spec.role == "main" else "templated base", view, view.before) for view in views]
    rows += [("SFT", view, view.after) for view in views if view.run.spec.role == "main"]
    yield Table(
        title="Before and after, on held-out clusters",
        header=("policy", "success", "valid format", "valid calls", "tokens", "imitates", "calibration error", "Brier"),
        rows=tuple((name, *_elicited(view, attempts)) for name, view, attempts in rows),
    )


def _elicited(view: RunView, attempts: Sequence[Attempt]) -> tuple[str, ...]:
    calls = sum(one.calls for one in attempts)
    invalid = sum(one.invalid_calls for one in attempts)
    gap, brier = _calibration(attempts)
    return (
        _number(_success(view, attempts)),
        _mean(attempts, lambda one: one.verdicts.get("format", 0.0)),
        "—" if calls == 0 else f"{1 - invalid / calls:.3f} of {calls}",
        _mean(attempts, lambda one: one.tokens),
        _mean(attempts, lambda one: float(one.imitates)),
        f"{gap:.3f}",
        f"{brier:.3f}",
    )


def _calibration(attempts: Sequence[Attempt]) -> tuple[float, float]:
    """Expected calibration error in ten bins, and the Brier score, of the mean probability of what was said."""
    bins: dict[int, list[Attempt]] = {}
    for one in attempts:
        bins.setdefault(min(_BINS - 1, int(one.certainty * _BINS)), []).append(one)
    gaps = [abs(sum(one.certainty for one in part) - sum(one.is_success for one in part)) for part in bins.values()]
    brier = sum((one.certainty - one.is_success) ** 2 for one in attempts)
    return sum(gaps) / max(1, len(attempts)), brier / max(1, len(attempts))


def _factors(plan: Plan, views: Sequence[RunView]) -> Iterator[Table]:
    """Level 2: the effects of the factors, and what became of the groups."""
    if plan.factorial is not None and any("factorial" in view.run.spec.name for view in views):
        yield effects_table(plan.factorial, [view for view in views if "factorial" in view.run.spec.name])
    main = [view for view in views if view.run.spec.role == "main"]
    size = max((hits for view in main for _, hits in view.outcomes), default=0)
    rows = [
        (view.run.name, f"{quarter + 1} of {_QUARTERS}", *_histogram(view.outcomes, quarter, size))
        for view in main
        for quarter in range(_QUARTERS)
    ]
    header = ("run", "quarter of the updates", *(f"{hits} right" for hits in range(size + 1)))
    yield Table(title="Outcomes of a prompt's attempts, share of groups", header=header, rows=tuple(rows))


def _histogram(outcomes: Mapping[tuple[int, int], int], quarter: int, size: int) -> tuple[str, ...]:
    total = sum(count for (at, _), count in outcomes.items() if at == quarter)
    return tuple("—" if not total else f"{outcomes.get((quarter, hits), 0) / total:.2f}" for hits in range(size + 1))


def _slices(plan: Plan, views: Sequence[RunView]) -> Iterator[Table]:
    """Level 3: each slice at the start and at the end."""
    net = net_of(plan)
    rows = [
        (
            view.run.name,
            name,
            *(_number(share(view.mean_by_task(at, _hit, name), "")) for at in (view.before, view.after)),
            *(
                _mean([one for one in at if one.slice_name == name], lambda one: one.calls)
                for at in (view.before, view.after)
            ),
            _number(
                difference(view.mean_by_task(view.after, net, name), view.mean_by_task(view.before, net, name), "")
            ),
        )
        for view in views
        for name in sorted({one.slice_name for one in view.after})
    ]
    header = ("run", "slice", "success at the start", "at the end", "calls at the start", "at the end", "net gain")
    yield Table(title=f"Slices; net is success less {plan.price:g} a call", header=header, rows=tuple(rows))


def _efficiency(plan: Plan, views: Sequence[RunView]) -> Iterator[Table]:
    """Level 4: methods at equal interactions."""
    rows = [
        (
            view.run.name,
            str(view.apart[0]),
            str(sum(view.trained.values())),
            _number(_success(view, view.after)),
            f"{sum(one.is_success for one in view.after) / max(1, sum(one.turns for one in view.after)):.3f}",
            f"{3600 * sum(view.trained.values()) / view.seconds:,.0f}" if view.seconds else "—",
            f"{view.seconds:.0f}",
        )
        for view in views
    ]
    header = (
        "method",
        "scored episodes",
        "trained",
        "success",
        "successes an environment step",
        "episodes an hour",
        "seconds",
    )
    yield Table(title="Methods", header=header, rows=tuple(rows))


def _domains(plan: Plan, views: Sequence[RunView]) -> Iterator[Table]:
    """Level 6: each source in the mixture and after the curriculum."""
    rows = [
        (view.run.name, name, *_domain(view, name))
        for view in views
        for name in sorted({one.source for one in view.after})
    ]
    header = ("run", "source", "share of trained episodes", "success at the start", "at the end", "difference")
    yield Table(title="Sources", header=header, rows=tuple(rows))


def _domain(view: RunView, name: str) -> tuple[str, ...]:
    before, after = (
        view.mean_by_task([one for one in at if one.source == name], _hit) for at in (view.before, view.after)
    )
    total = sum(view.trained.values()) or 1
    return (
        f"{view.trained.get(name, 0) / total:.3f}",
        _number(share(before, "")),
        _number(share(after, "")),
        _number(difference(after, before, "")),
    )


_OF_LEVEL: Mapping[int, TablesFn] = {1: _bases, 2: _factors, 3: _slices, 4: _efficiency, 6: _domains}


def _hit(one: Attempt) -> float:
    return float(one.is_success)


def _success(view: RunView, attempts: Sequence[Attempt]) -> Measured:
    return share(view.mean_by_task(attempts, _hit), "success")


def _mean(attempts: Sequence[Attempt], of: Callable[[Attempt], float]) -> str:
    return f"{sum(of(one) for one in attempts) / len(attempts):.3f}" if attempts else "—"


def _number(measured: Measured) -> str:
    if measured.value is None:
        return "—"
    return f"{measured.value:.3f} [{measured.low:.3f}, {measured.high:.3f}]"


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}" if values else "—"
