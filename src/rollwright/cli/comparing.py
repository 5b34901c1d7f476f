"""`compare`: runs side by side, what differs between them first, then held-out results paired by task."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from rollwright.cli.failures import FAILED
from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, open_screen
from rollwright.cli.screen import JsonScreen, PersonScreen, interval

if TYPE_CHECKING:
    from rollwright.evaluation.comparison import Apart, Budget, ComparedRun, Comparison, Contrast, Difference
    from rollwright.statistics import Interval

__all__ = ["compare"]

_NUMBERS = (
    "success",
    "reward",
    "gold_success",
    "gold_gap",
    "avg_at_n",
    "pass_at_k",
    "pass_hat_k",
    "maj_at_k",
    "cover_at_rate",
    "sharpening",
    "tool_use",
    "missing_tasks",
)
"""Of an evaluation's rows, those that stand side by side; `query` has all."""


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN…",
            help="Two run folders or more, compared with the first; several runs of one arm are joined by commas: "
            "`a-seed0,a-seed1 b-seed0,b-seed1`.",
            show_default=False,
        ),
    ],
    *,
    match: Annotated[
        str | None,
        typer.Option(
            metavar="updates|episodes|tokens|calls|clock",
            help="Take of each run its newest evaluation within the budget that all runs have reached; by default the "
            "newest, with what each had spent.",
            show_default=False,
        ),
    ] = None,
    level: Annotated[float, typer.Option(min=0.5, max=0.999, help="Of the intervals.")] = 0.95,
    json: Json = False,
) -> None:
    """Compare runs: what differs between their manifests, then held-out results by task, then what does not compare.

    Numbers compare under one protocol digest alone. The exit code is 1 where none do. Runs may be running.

    ```
    rollwright compare runs/arithmetic-tool-seed0 runs/arithmetic-tool-seed0-2
    rollwright compare runs/a runs/b --match tokens
    rollwright compare runs/a-seed0,runs/a-seed1 runs/b-seed0,runs/b-seed1 --json
    ```
    """
    from rollwright.evaluation.comparison import compare_runs, read_arm

    if len(runs) < 2:
        raise typer.BadParameter("give at least two runs")
    arms = [read_arm(_paths(one)) for one in runs]
    _refuse_one_run_twice([run for arm in arms for run in arm.runs])
    comparison = compare_runs(arms, matched_by=_budget(match), level=level)
    screen = open_screen(json)
    if isinstance(screen, JsonScreen):
        for line in _lines(comparison):
            print_json(line)
    else:
        _show(comparison, screen)
    if not comparison.contrasts:
        raise typer.Exit(FAILED)


def _paths(text: str) -> tuple[Path, ...]:
    """One folder, or several joined by commas; a folder whose name has a comma is one."""
    return (Path(text),) if Path(text).exists() else tuple(Path(part) for part in text.split(",") if part)


def _refuse_one_run_twice(runs: "Sequence[ComparedRun]") -> None:
    """A run, a link to it and a copy of it are one: it is no evidence beside itself."""
    places: dict[object, Path] = {}
    for run in runs:
        run_id = run.manifest.run.run_id
        first = next((places[key] for key in (run.path.resolve(), run_id) if key in places), None)
        if first is not None:
            raise typer.BadParameter(
                f"{first} and {run.path} are one run ({run_id}), and a run is no evidence beside itself; give each run "
                "once, and no copy of it"
            )
        places[run.path.resolve()] = places[run_id] = run.path


def _budget(text: str | None) -> "Budget | None":
    from rollwright.evaluation.comparison import BUDGETS

    if text is None:
        return None
    found = dict(zip(BUDGETS, BUDGETS, strict=True)).get(cast("Budget", text))
    if found is None:
        raise typer.BadParameter(f"--match takes {', '.join(BUDGETS)}; {text!r} was given")
    return found


def _show(comparison: "Comparison", screen: PersonScreen) -> None:
    from rollwright.evaluation.comparison import folded_fields

    names = [arm.name for arm in comparison.arms]
    folded = folded_fields(comparison.fields, [arm.runs[0].manifest for arm in comparison.arms])
    rows = [(field.section, field.path, *field.values) for field in folded]
    if rows:
        screen.table(("section", "field", *names), rows, title="what differs between the runs")
    equal = ", ".join(comparison.equal_sections)
    screen.say(f"equal: {equal}" if equal else "no section is equal")
    for arm in comparison.arms:
        for run in arm.runs:
            if run.num_segments > 1:
                screen.say(f"note: {run.path} has {run.num_segments} segments; its newest is compared")
    for contrast in comparison.contrasts:
        _show_contrast(contrast, comparison, screen)
    if comparison.apart:
        screen.say("what does not compare")
        for one in comparison.apart:
            screen.say(f"  {one.protocol}, {one.arm}: {one.reason}")
            _show_apart(one, comparison, screen)


def _show_contrast(contrast: "Contrast", comparison: "Comparison", screen: PersonScreen) -> None:
    digest = contrast.beside[0].evaluation.protocol_sha256[:12]
    title = f"{contrast.protocol} ({digest}): {contrast.arm} against {comparison.arms[0].name}"
    heads = [f"{one.run.path.name}@{one.evaluation.step}" for one in contrast.beside]
    found = [_numbers(one.evaluation.rows) for one in contrast.beside]
    keys = dict.fromkeys(key for one in found for key in one)
    rows = [(key, *(one.get(key, "") for one in found)) for key in keys]
    screen.table(("held out", *heads), rows, title=title)
    columns = ("difference", "tasks", "missing", "by task", "Student's interval", "bootstrap", "t", "p", "McNemar p")
    screen.table(columns, [_difference(one) for one in contrast.differences], title="paired differences")
    if contrast.tax is not None:
        tax, bounds = contrast.tax.tax, contrast.tax.intervals
        normalized = _bounded(tax.normalized, bounds.normalized)
        screen.say(
            f"sharpening tax at k={contrast.tax.k}, {comparison.arms[0].name} minus {contrast.arm}: area "
            f"{_bounded(tax.area, bounds.area)}, normalized {normalized}; above 0, more attempts are worth less than "
            "in the first"
        )
    _show_budgets(contrast, screen)


def _show_budgets(contrast: "Contrast", screen: PersonScreen) -> None:
    matched = [line.budget for line in contrast.budgets if line.is_matched]
    others = [line for line in contrast.budgets if not line.is_matched]
    if contrast.matched_by is not None:
        screen.say(f"matched by {contrast.matched_by}: each at its newest evaluation within {contrast.limit:g}")
    screen.say(f"equal budgets: {', '.join(matched) or 'none'}")
    for line in others:
        amounts = " and ".join(f"{amount:,.6g}" for amount in line.amounts)
        screen.say(f"not equal: {line.budget}, {amounts}")


def _show_apart(apart: "Apart", comparison: "Comparison", screen: PersonScreen) -> None:
    if apart.differences:
        rows = [(one.name, *one.values) for one in apart.differences]
        columns = ("held fixed", comparison.arms[0].name, apart.arm)
        screen.table(columns, rows, title=f"the two protocols {apart.protocol}")


def _numbers(rows: "tuple[object, ...]") -> dict[str, str]:
    from rollwright.record import EvaluationRow

    found: dict[str, str] = {}
    for row in rows:
        assert isinstance(row, EvaluationRow), "an evaluation has rows of evaluations"
        if row.metric in _NUMBERS and not {"slice", "base"} & set(row.labels):
            labels = " ".join(f"{name}={value}" for name, value in row.labels.items())
            found[f"{row.metric} {labels}".strip()] = interval(row.value, row.low, row.high)
    return found


def _difference(one: "Difference") -> tuple[object, ...]:
    labels = " ".join(f"{name}={value}" for name, value in one.labels.items())
    discordant = "" if one.mcnemar_p is None else f"{one.mcnemar_p:.4f} ({one.only_reference} : {one.only_other})"
    return (
        f"{one.metric} {labels}".strip(),
        one.num_tasks,
        one.num_missing,
        "undefined" if one.mean is None else f"{one.mean:+.4f}",
        _bounds(one.by_student),
        _bounds(one.by_bootstrap),
        "" if one.t is None else f"{one.t:.3f}",
        "" if one.p_value is None else f"{one.p_value:.4f}",
        discordant,
    )


def _bounds(found: "Interval | None") -> str:
    return "undefined" if found is None else f"[{found.low:+.4f}, {found.high:+.4f}]"


def _bounded(value: float | None, bounds: "Interval | None") -> str:
    return "undefined" if value is None else f"{value:+.4f} {_bounds(bounds)}"


def _lines(comparison: "Comparison") -> Iterator[dict[str, object]]:
    """One object a statement, in the order in which a person reads them."""
    yield {
        "event": "arms",
        "arms": [{"name": arm.name, "runs": [str(run.path) for run in arm.runs]} for arm in comparison.arms],
        "equal_sections": list(comparison.equal_sections),
    }
    for field in comparison.fields:
        yield {"event": "manifest", **asdict(field)}
    for contrast in comparison.contrasts:
        yield _contrast_line(contrast)
    for apart in comparison.apart:
        yield {"event": "not_comparable", **asdict(apart)}


def _contrast_line(contrast: "Contrast") -> dict[str, object]:
    tax = contrast.tax
    return {
        "event": "contrast",
        "protocol": contrast.protocol,
        "arm": contrast.arm,
        "checkpoints": [
            {
                "run": str(one.run.path),
                "step": one.evaluation.step,
                "evaluation": one.evaluation.name,
                "protocol_sha256": one.evaluation.protocol_sha256,
                "numbers": [
                    {
                        "metric": row.metric,
                        "labels": dict(row.labels),
                        "value": row.value,
                        "low": row.low,
                        "high": row.high,
                        "tasks": row.num_tasks,
                    }
                    for row in one.evaluation.rows
                ],
            }
            for one in contrast.beside
        ],
        "matched_by": contrast.matched_by,
        "limit": contrast.limit,
        "budgets": [{**asdict(line), "is_matched": line.is_matched} for line in contrast.budgets],
        "differences": [asdict(one) for one in contrast.differences],
        "sharpening_tax": None
        if tax is None
        else {
            "k": tax.k,
            "area": tax.tax.area,
            "normalized": tax.tax.normalized,
            "intervals": asdict(tax.intervals),
            "reference_curve": tax.tax.base.curve.tolist(),
            "curve": tax.tax.post.curve.tolist(),
        },
    }
