"""From the exporters' configuration to observers behind the screen, and the log that every run has."""

import importlib.util
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import assert_never

from rollwright.evidence import MetricLine, RunFolder, StoredRun
from rollwright.evidence.gates import GateRecord, read_gates
from rollwright.recipes.config.exporters import (
    ExporterConfig,
    MlflowConfig,
    TensorBoardConfig,
    TrackioConfig,
    WandbConfig,
)
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.exporters.client import ExportClient, ExportedRun, ExportRecord
from rollwright.recipes.exporters.mlflow import MlflowExportClient
from rollwright.recipes.exporters.naming import Names, evaluation_values, gate_values, renamed, step_values
from rollwright.recipes.exporters.observing import ExportSeat, LoggedObserver
from rollwright.recipes.exporters.sending import Sender
from rollwright.recipes.exporters.tensorboard import TensorBoardClient
from rollwright.recipes.exporters.trackio import TrackioClient
from rollwright.recipes.exporters.wandb import WandbClient
from rollwright.runtime.observers import Observer

__all__ = ["logged", "mend_log", "refuse_missing_clients"]


def refuse_missing_clients(recipe: RecipeConfig) -> None:
    """Refuse a service whose package is not installed, before anything is made.

    Raises:
        RecipeError: saying which extra installs it.
    """
    for config in recipe.exporters:
        if importlib.util.find_spec(config.kind) is None:
            raise RecipeError(
                f"exporters names {config.kind}, whose package is not installed; pip install "
                f"'rollwright[{config.kind}]', or leave it out."
            )


def logged(
    recipe: RecipeConfig,
    folder: RunFolder,
    first: Observer,
    stack: ExitStack,
    *,
    resumed_step: int | None,
    now: Callable[[], datetime],
) -> Observer:
    """The observer of a run: the first one, with the log in the folder and the services behind it.

    Args:
        recipe: names the services.
        folder: of the run, open for writing.
        first: the screen.
        stack: closes the services with the run.
        resumed_step: the step that the run goes on from; None: it begins.
        now: the clock.
    """
    seats = [ExportSeat(sender=Sender(_client(config)), names=config.names) for config in recipe.exporters]
    gates = read_gates(folder.path) if seats else ()
    observer = LoggedObserver(first=first, folder=folder, seats=seats, now=now, gates=gates)
    stack.callback(observer.close)
    run = ExportedRun(
        run_id=folder.manifest.run.run_id,
        name=folder.path.resolve().name,
        folder=folder.path,
        configuration={value.key: value.value for value in folder.manifest.configuration},
        resumed_step=resumed_step,
    )
    lines = folder.metric_lines() if seats and resumed_step is not None else ()
    for seat in seats:
        seat.sender.begin(replace(run, history=_history(lines, gates, seat.names)))
    return observer


def _history(lines: Sequence[MetricLine], gates: Sequence[GateRecord], names: Names) -> tuple[ExportRecord, ...]:
    """What was offered of these, in that order: evaluation, gates and step of each step."""
    told = [(line.step, line.kind == "step", line.values) for line in lines]
    for step in sorted({gate.step for gate in gates}):
        told.append((step, False, gate_values([gate for gate in gates if gate.step == step])))
    return tuple(
        ExportRecord(step=step, values=renamed(values, names), is_last_of_step=is_last)
        for step, is_last, values in sorted(told, key=lambda one: one[:2])
    )


def mend_log(recipe: RecipeConfig, folder: RunFolder, *, step: int, now: Callable[[], datetime]) -> None:
    """Let `metrics.jsonl` hold what happened up to a step: lines of later steps go, lines that are missing come.

    Args:
        recipe: of the run.
        folder: whose later commits are abandoned.
        step: the last that happened; -1: none.
        now: the clock, for lines that are written late.
    """
    lines = [line for line in folder.metric_lines() if line.step <= step]
    known = {line.step for line in lines if line.kind == "step"}
    if any(c.kind == "step" and c.step > 0 and c.step not in known for c in folder.commits):
        lines = _with_missing(recipe, StoredRun(folder.path), lines, now())
    folder.keep_metric_lines(lines)


def _with_missing(
    recipe: RecipeConfig, stored: StoredRun, lines: Sequence[MetricLine], at: datetime
) -> list[MetricLine]:
    known = {(line.kind, line.step) for line in lines}
    # An evaluation of a later command has a name of its own.
    rows = [row for row in stored.evaluations() if "#" not in row.evaluation]
    late: list[MetricLine] = []
    for step in stored.steps:
        of_step = MetricLine(
            kind="step", step=step, stage=_stage_of(recipe, step), at=at, values=step_values(stored.metrics(step))
        )
        evaluated = evaluation_values([row for row in rows if row.step == step])
        if evaluated and ("evaluation", step) not in known:
            late.append(replace(of_step, kind="evaluation", values=evaluated))
        if step > 0 and ("step", step) not in known:
            late.append(of_step)
    # An evaluation stands before its step, as it was told.
    return sorted((*lines, *late), key=lambda line: (line.step, line.kind))


def _stage_of(recipe: RecipeConfig, step: int) -> str:
    last = 0
    for stage in recipe.stages:
        last += recipe.run.steps if stage.kind == "rl" else stage.steps
        if step <= last:
            return stage.name
    return recipe.stages[-1].name


def _client(config: ExporterConfig) -> ExportClient:
    match config:
        case TensorBoardConfig():
            return TensorBoardClient(folder=Path(config.folder) if config.folder else None)
        case WandbConfig():
            return WandbClient(
                project=config.project,
                entity=config.entity,
                run_name=config.name,
                mode=config.mode,
                folder=Path(config.folder),
            )
        case MlflowConfig():
            return MlflowExportClient(uri=config.uri, experiment=config.experiment, run_name=config.name)
        case TrackioConfig():
            return TrackioClient(project=config.project, run_name=config.name)
        case _:
            assert_never(config)
