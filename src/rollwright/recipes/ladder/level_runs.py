"""A level of runs: brings each to its end, reads them, asks the gates of the main ones."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import cast

from rollwright.evaluation.gates import judge
from rollwright.recipes.build.named import VERIFIER, make_named
from rollwright.recipes.build.objective import refuse_untrainable
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.ladder.commands import Commands
from rollwright.recipes.ladder.factorial import specs_of
from rollwright.recipes.ladder.faults import LadderFault, fault_named
from rollwright.recipes.ladder.measures import Subject, measure_named
from rollwright.recipes.ladder.plan import Limit, Plan, RunSpec
from rollwright.recipes.ladder.recording import record_verdicts
from rollwright.recipes.ladder.report import LadderVerdict, LevelReport, RunNote
from rollwright.recipes.ladder.runs import LadderOrder, LadderRun, asked_recipe, bring_to_end, last_step, run_of
from rollwright.recipes.ladder.tables import tables_of
from rollwright.recipes.ladder.view import RunView, view_of
from rollwright.record import Verifier
from rollwright.record.gates import Measured

__all__ = ["climb_runs", "runs_of"]

_OF_LEVEL = ("seeds", "methods")
"""Measures that are asked of a level once, not of each main run."""
_NO_RUN = "the level has no run that it could be asked of"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    runs: tuple[LadderRun, ...]
    missing: tuple[str, ...]


def climb_runs(plan: Plan, order: LadderOrder, commands: Commands, heard: Callable[[str], None]) -> LevelReport:
    """Run a level and judge it.

    Args:
        plan: of the level.
        order: what was asked for; all of it is checked before the first run begins.
        commands: that run now.
        heard: told in a sentence what is done.

    Raises:
        RecipeError: for what cannot be run as asked, or a folder that holds other runs.
        LadderError: where a run did not come to its end.
        RunStoppedError: where someone stopped one.
    """
    began = time.monotonic()
    planned = runs_of(plan, order)
    for layer in _layers(planned.runs):
        jobs = [_job(run, commands, heard) for run in layer]
        commands.all_of(jobs, at_once=order.at_once)
    views = tuple(view_of(run) for run in planned.runs)
    verdicts = tuple(_verdicts(plan, order, views, planned.missing))
    for view in views:
        own = [one for one in verdicts if one.run == view.run.name]
        record_verdicts(view.run, own, level=plan.number, at=datetime.now(UTC))
    return LevelReport(
        level=plan.number,
        title=plan.title,
        scale=plan.scale,
        verdicts=verdicts,
        tables=tables_of(plan, views) if views else (),
        runs=tuple(_note(view, order) for view in views),
        notes=tuple(_notes(order, views)),
        missing=planned.missing,
        fault=order.fault,
        seconds=time.monotonic() - began,
    )


def runs_of(plan: Plan, order: LadderOrder) -> "_Planned":
    """The runs of a level as asked, each behind the one that it starts from, and what of the build is missing.

    Raises:
        RecipeError: for settings that make no recipe.
    """
    fault = fault_named(order.fault, plan.number) if order.fault else None
    struck = order if fault is None else _with_fault(order, fault)
    asked = {False: asked_recipe(plan, order), True: asked_recipe(plan, struck)}
    specs, missing = _possible(plan, order, asked[False].resolved, fault)
    found: dict[tuple[str, int], LadderRun] = {}
    for spec in specs:
        for seed in spec.seeds if fault is None else spec.seeds[:1]:
            start = _start_of(spec, order.seed + seed, found)
            is_struck = fault is not None and spec.role == "main"
            run = run_of(plan, struck if is_struck else order, asked[is_struck], spec, order.seed + seed, start)
            try:
                refuse_untrainable(run.resolved.recipe)
            except RecipeError as error:
                missing.append(f"{run.name}: {error}")
                continue
            is_altered = fault is not None and fault.alters_loop and spec.role == "main"
            found[spec.name, run.seed] = replace(run, fault=order.fault if is_altered else "")
    return _Planned(runs=tuple(found.values()), missing=tuple(missing))


def _possible(
    plan: Plan, order: LadderOrder, recipe: RecipeConfig, fault: LadderFault | None
) -> tuple[list[RunSpec], list[str]]:
    specs = [*plan.runs, *(specs_of(plan.factorial) if plan.factorial is not None else ())]
    if fault is not None:
        return [spec for spec in specs if spec.role != "compared"], []
    if order.recipe is None:
        return specs, []
    stages = {stage.kind for stage in recipe.stages}
    kept: list[RunSpec] = []
    missing: list[str] = []
    for spec in specs:
        if spec.stages not in stages:
            if spec.role != "start":
                missing.append(f"{spec.name}: the recipe has no stage of kind {spec.stages!r}")
        elif spec.own and spec.role != "start":
            missing.append(
                f"{spec.name}: it sets {', '.join(one.partition('=')[0] for one in spec.own)}, of the level's own world"
            )
        else:
            kept.append(spec)
    return kept, missing


def _with_fault(order: LadderOrder, fault: LadderFault) -> LadderOrder:
    """Of the main runs: what they start from is trained soundly, and shared with a sound climb."""
    return replace(order, settings=(*fault.settings, *order.settings), folder=order.folder / f"fault-{fault.name}")


def _start_of(spec: RunSpec, seed: int, found: dict[tuple[str, int], LadderRun]) -> LadderRun | None:
    """The run of the same seed, else that of any: seeds may share a start."""
    named = [run for (name, _), run in found.items() if name == spec.start]
    return next((run for run in named if run.seed == seed), named[0] if named else None)


def _layers(runs: Sequence[LadderRun]) -> Iterable[Sequence[LadderRun]]:
    """Runs that may train side by side: each behind what it starts from."""
    depth: dict[str, int] = {}
    for run in runs:
        depth.setdefault(run.spec.name, depth.get(run.spec.start, -1) + 1)
    for place in range(max(depth.values(), default=-1) + 1):
        yield [run for run in runs if depth[run.spec.name] == place]


def _job(run: LadderRun, commands: Commands, heard: Callable[[str], None]) -> Callable[[], None]:
    return lambda: bring_to_end(run, commands, heard)


def _verdicts(
    plan: Plan, order: LadderOrder, views: Sequence[RunView], missing: tuple[str, ...]
) -> Iterator[LadderVerdict]:
    beside = tuple(view for view in views if view.run.spec.role != "start")
    main = _judged(plan, beside)
    path = order.second or ("" if order.recipe else plan.second)
    second = cast("Verifier", make_named(path, {}, needs=VERIFIER)).name if path else ""
    # Under a fault one seed of one run is enough, and nothing stands beside it.
    limits = [limit for limit in plan.limits if not order.fault or limit.measure not in _OF_LEVEL]
    for limit in limits:
        asked = main[:1] if limit.measure in _OF_LEVEL else main
        if not asked:
            yield _verdict("", limit, Measured(value=None, num_items=0, source=_NO_RUN))
        for view in asked:
            subject = Subject(plan=plan, view=view, beside=beside, second=second, missing=missing)
            name = "" if limit.measure in _OF_LEVEL else view.run.name
            yield _verdict(name, limit, measure_named(limit.measure)(subject))


def _judged(plan: Plan, beside: Sequence[RunView]) -> list[RunView]:
    main = [view for view in beside if view.run.spec.role == "main"]
    if plan.judged == "every" or not main:
        return main
    return [max(main, key=lambda view: sum(one.is_success for one in view.after) / len(view.after))]


def _verdict(run: str, limit: Limit, measured: Measured) -> LadderVerdict:
    return LadderVerdict(run=run, limit=limit, verdict=judge(limit.measure, limit.as_bound, measured))


def _note(view: RunView, order: LadderOrder) -> RunNote:
    path = view.run.path
    return RunNote(
        name=view.run.name,
        folder=str(path.relative_to(order.folder)),
        code_commit=view.sources.commit,
        protocol_sha256=view.sources.frozen,
        steps=last_step(view.run.resolved.recipe),
        seconds=view.seconds,
    )


def _notes(order: LadderOrder, views: Sequence[RunView]) -> Iterator[str]:
    if len({view.sources.commit for view in views}) > 1:
        listed = ", ".join(f"{view.run.name}: {view.sources.commit[:12]}" for view in views)
        yield f"the runs were made by different code ({listed}); their times do not compare."
    if order.recipe is not None and not order.second:
        yield "no second verifier was named for this recipe; --second package.module:callable gives one."
    yield "intervals are over tasks, paired where numbers of one run are compared; they say nothing of another seed."
