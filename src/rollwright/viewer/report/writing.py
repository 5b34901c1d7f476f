"""Making a report: runs are read, a document is built, and Markdown, drawings and one HTML page are written."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rollwright.evidence import EvidenceError, RunFolder, SchemaVersionError, ShardError
from rollwright.evidence.durable import write_files
from rollwright.viewer.errors import ViewerError
from rollwright.viewer.figures_run import read_numbers
from rollwright.viewer.figures_tables import excluded_table, gates_table, ledger_table
from rollwright.viewer.figures_tasks import read_task_scores
from rollwright.viewer.report.building import overview, sections_of_run
from rollwright.viewer.report.comparing import MeasuredRun, arm_curve, arms_of, differences_table, overlays, pairs_table
from rollwright.viewer.report.document import Block, Document, Section
from rollwright.viewer.report.drawing import draw_svg
from rollwright.viewer.report.html import render_html
from rollwright.viewer.report.markdown import render_markdown
from rollwright.viewer.report.saying import claims_sections

__all__ = ["ReportFiles", "build_document", "read_runs", "write_report"]

_DRAWINGS = "figures"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """What was written."""

    markdown: Path
    html: Path
    drawings: tuple[Path, ...]
    """Beside the Markdown; the page holds its own."""
    claimed: int
    not_claimed: int


def write_report(paths: Sequence[Path], out: Path) -> ReportFiles:
    """Write the report of one run or of several.

    Args:
        paths: run folders, each once; they may be being written.
        out: a folder, made where it is missing; `report.md`, `report.html` and `figures/` in it are replaced.

    Raises:
        ViewerError: where a run is given twice, or is damaged, or nothing can be written in `out`.
        EvidenceError: where one is no run, or of another schema.
    """
    _assert_outside(out, paths)
    runs = read_runs(paths)
    document, claimed, not_claimed = build_document(runs)
    drawings = {figure.slug: draw_svg(figure) for figure in document.figures}
    folder, markdown, page = out / _DRAWINGS, out / "report.md", out / "report.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = markdown.read_text("utf-8") if markdown.exists() else ""
        files = {folder / f"{slug}.svg": drawing.encode() for slug, drawing in drawings.items()}
        files[markdown] = render_markdown(document, _DRAWINGS).encode()
        files[page] = render_html(document, drawings).encode()
        write_files(files)
        for stale in sorted(folder.glob("*.svg")):
            # What no report drew is somebody else's.
            if stale not in files and f"{_DRAWINGS}/{stale.name}" in before:
                stale.unlink()
    except (OSError, UnicodeDecodeError) as error:
        raise ViewerError(
            f"the report cannot be written in {out}: {error}. Give a folder that can be written, with room, by --out."
        ) from error
    return ReportFiles(
        markdown=markdown,
        html=page,
        drawings=tuple(folder / f"{slug}.svg" for slug in drawings),
        claimed=claimed,
        not_claimed=not_claimed,
    )


def _assert_outside(out: Path, runs: Sequence[Path]) -> None:
    place = out.resolve()
    for run in runs:
        if place.is_relative_to(run.resolve()):
            raise ViewerError(
                f"{out} lies in the run {run}, into which nothing is written; give another folder by --out."
            )
    there = next(folder for folder in (place, *place.parents) if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise ViewerError(f"nothing can be written in {there}; give a folder that can be written by --out.")


def read_runs(paths: Sequence[Path]) -> tuple[MeasuredRun, ...]:
    """Read run folders; runs of one name are told apart by a number behind it.

    Raises:
        ViewerError: where a run or its copy is given twice, or is damaged.
        EvidenceError: where one is no run, or of another schema.
    """
    places = [path.resolve() for path in paths]
    twice = next((path for path, place in zip(paths, places, strict=True) if places.count(place) > 1), None)
    if twice is not None:
        raise ViewerError(f"{twice} is given twice; a run is no evidence beside itself. Give each folder once.")
    taken: dict[str, int] = {}
    places_of: dict[str, Path] = {}
    runs: list[MeasuredRun] = []
    for path in paths:
        run = _read(path)
        run_id = run.numbers.manifest.run.run_id
        first = places_of.setdefault(run_id, path)
        if first is not path:
            raise ViewerError(f"{path} is a copy of {first}: both are run {run_id}. Give one of the two.")
        count = taken[run.numbers.name] = taken.get(run.numbers.name, 0) + 1
        named = run.numbers.name if count == 1 else f"{run.numbers.name} ({count})"
        runs.append(replace(run, numbers=replace(run.numbers, name=named)))
    return tuple(runs)


def build_document(runs: Sequence[MeasuredRun]) -> tuple[Document, int, int]:
    """The report before it is written, with how many claims it makes and how many it lists as not made."""
    claims, claimed, not_claimed = claims_sections(runs)
    if len(runs) == 1:
        numbers = runs[0].numbers
        sections = (
            Section(slug="overview", title="What this report is of", blocks=overview(numbers)),
            *claims,
            *sections_of_run(numbers),
        )
        title = f"Report on {numbers.name}"
    else:
        sections = (*_of_several(runs), *claims, *_each(runs))
        title = f"Report on {len(runs)} runs"
    subtitle = ", ".join(f"{run.numbers.manifest.run.run_id} at step {run.numbers.last_step}" for run in runs)
    return Document(title=title, subtitle=subtitle, sections=sections), claimed, not_claimed


def _of_several(runs: Sequence[MeasuredRun]) -> tuple[Section, ...]:
    arms = [arm for arm in arms_of(runs) if len(arm.runs) > 1]
    seeds: tuple[Block, ...] = tuple(arm_curve(arm, place) for place, arm in enumerate(arms, start=1))
    return (
        Section(slug="differences", title="How the runs differ", blocks=(differences_table(runs),)),
        Section(slug="over-each-other", title="Curves over each other", blocks=overlays(runs)),
        Section(slug="paired", title="Paired comparison and seeds", blocks=(*seeds, pairs_table(runs))),
    )


def _each(runs: Sequence[MeasuredRun]) -> tuple[Section, ...]:
    return tuple(
        Section(
            slug=f"run-{place}",
            title=f"Run {run.numbers.name}",
            blocks=(
                *overview(run.numbers),
                *(
                    replace(table, slug=f"run-{place}-{table.slug}")
                    for table in (gates_table(run.numbers), ledger_table(run.numbers), excluded_table(run.numbers))
                ),
            ),
        )
        for place, run in enumerate(runs, start=1)
    )


def _read(path: Path) -> MeasuredRun:
    try:
        return MeasuredRun(numbers=read_numbers(path), scores=read_task_scores(path))
    except SchemaVersionError:
        raise
    except ShardError as error:
        raise ViewerError(_damaged(path, error)) from error
    except EvidenceError as error:
        if (path / "manifest.json").exists() and not _can_be_opened(path):
            raise ViewerError(_damaged(path, error)) from error
        raise


def _can_be_opened(path: Path) -> bool:
    try:
        RunFolder.open(path)
    except EvidenceError:
        return False
    return True


def _damaged(path: Path, error: EvidenceError) -> str:
    return (
        f"{path} is damaged, and no report is made of it: {error} `rollwright check {shlex.quote(str(path))}` names "
        "every place that does not hold."
    )
