"""The report of one run, section by section."""

from collections.abc import Sequence

from rollwright.evidence import Manifest
from rollwright.viewer.curves import AXES, AxisName, draw_curve
from rollwright.viewer.curves_held_out import held_out_curve, pass_at_k_curve
from rollwright.viewer.curves_training import DATA, LEARNING, POLICY, STALENESS, SYSTEMS, TOOLS
from rollwright.viewer.figures import Cell, Figure, Table
from rollwright.viewer.figures_bars import (
    difficulty_bars,
    lag_bars,
    mixture_bars,
    parts_bars,
    tables_provenance,
    terminal_bars,
)
from rollwright.viewer.figures_run import RunNumbers
from rollwright.viewer.figures_tables import (
    events_table,
    excluded_table,
    gates_table,
    held_out_table,
    ledger_table,
    tools_table,
    withheld_table,
)
from rollwright.viewer.report.document import Block, Bullets, Section

__all__ = ["configuration_table", "overview", "sections_of_run"]

_AXES: tuple[AxisName, ...] = ("step", "episodes", "tokens", "seconds", "sqrt_kl")


def sections_of_run(numbers: RunNumbers) -> tuple[Section, ...]:
    """All that is shown of one run, behind its claims."""
    return (
        Section(slug="held-out", title="Held out", blocks=_held_out(numbers)),
        Section(slug="learning", title="Learning", blocks=tuple(draw_curve(numbers, one) for one in LEARNING)),
        Section(slug="policy", title="Policy", blocks=tuple(draw_curve(numbers, one) for one in POLICY)),
        Section(
            slug="staleness",
            title="Staleness and mismatch",
            blocks=(lag_bars(numbers), *(draw_curve(numbers, one) for one in STALENESS)),
        ),
        Section(
            slug="data",
            title="Data, ledger and exclusions",
            blocks=(
                mixture_bars(numbers),
                difficulty_bars(numbers),
                terminal_bars(numbers),
                *(draw_curve(numbers, one) for one in DATA),
                ledger_table(numbers),
                excluded_table(numbers),
                withheld_table(numbers),
            ),
        ),
        Section(
            slug="tool-use",
            title="Tools",
            blocks=(*(draw_curve(numbers, one) for one in TOOLS), tools_table(numbers)),
        ),
        Section(
            slug="systems",
            title="Systems",
            blocks=(parts_bars(numbers), *(draw_curve(numbers, one) for one in SYSTEMS)),
        ),
        Section(slug="gates-and-events", title="Gates, alarms, events", blocks=_happened(numbers)),
        Section(slug="configuration", title="Configuration", blocks=(configuration_table(numbers),)),
    )


def overview(numbers: RunNumbers) -> tuple[Block, ...]:
    """What the report is of, in sentences."""
    spent = numbers.costs[-1] if numbers.costs else numbers.cost_at(0)
    stages = ", ".join(
        f"{stage} (steps {min(steps)} to {max(steps)})" for stage, steps in _steps_of_stages(numbers).items()
    )
    failed = sum(record.verdict.outcome == "failed" for record in numbers.gates if record.purpose != "alarm")
    alarms = sum(record.purpose == "alarm" for record in numbers.gates)
    said = [
        f"Run {numbers.manifest.run.run_id}, folder {numbers.name}, last step {numbers.last_step}.",
        f"Stages: {stages or 'none trained yet'}.",
        f"Spent on training: {spent.episodes:,} episodes, {spent.tokens:,} action tokens, {spent.seconds:,.0f} s of "
        "steps (evaluations left out).",
        f"Gates judged: {sum(r.purpose != 'alarm' for r in numbers.gates)}, failed: {failed}; alarms: {alarms}.",
    ]
    if numbers.writer is not None:
        said.append("The run is being written: this report is of what was committed when it was made.")
    if len(numbers.manifests) > 1:
        said.append(f"The run has {len(numbers.manifests)} segments: it went on under other conditions than it began.")
    if numbers.manifest.receipts != "full":
        said.append(f"Receipts were kept as {numbers.manifest.receipts}: ratios and losses cannot be recomputed.")
    if not numbers.evaluations:
        said.append("The run was not evaluated: nothing is said of tasks that it did not train on.")
    return (Bullets(items=tuple(said)), *_segments(numbers.manifests))


def configuration_table(numbers: RunNumbers) -> Table:
    """Each value of the newest segment, who set it, and how well it is known."""
    rows: list[tuple[Cell, ...]] = [
        (value.key, value.value, value.origin, value.label or "") for value in numbers.manifest.configuration
    ]
    return Table(
        slug="configuration-values",
        title="Configuration and the label of each value",
        columns=("key", "value", "set by", "label"),
        rows=tuple(rows),
        provenance=tables_provenance(numbers, "the configuration of the run's newest manifest"),
        note="D: the cited report states it; C: a released artifact configures it; I: inferred or chosen; U: unknown; "
        "none: a default or a choice of this run",
        absent="" if rows else "the manifest has no configuration",
    )


def _held_out(numbers: RunNumbers) -> tuple[Block, ...]:
    curves: list[Figure] = [held_out_curve(numbers, "success", axis) for axis in _AXES]
    shown = [curve for curve in curves if curve.series or curve.x in (AXES["step"], AXES["sqrt_kl"])]
    return (
        *shown,
        draw_curve(numbers, LEARNING[0], "sqrt_kl"),
        held_out_curve(numbers, "reward"),
        pass_at_k_curve(numbers),
        held_out_table(numbers),
    )


def _happened(numbers: RunNumbers) -> tuple[Block, ...]:
    return (gates_table(numbers), events_table(numbers))


def _segments(manifests: Sequence[Manifest]) -> tuple[Block, ...]:
    items = tuple(
        f"Segment {one.segment.number} after step {one.segment.after_step}, because: {one.segment.reason}. "
        + "; ".join(f"{d.path} was {d.stored} and is {d.now}" for d in one.segment.differences)
        for one in manifests
        if one.segment is not None
    )
    return (Bullets(items=items),) if items else ()


def _steps_of_stages(numbers: RunNumbers) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for step in sorted(numbers.stages):
        found.setdefault(numbers.stages[step], []).append(step)
    return found
