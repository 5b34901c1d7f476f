"""`check_deeply`: steps in order, then verdicts, evaluations, and the scores of weights that still stand."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rollwright.evidence import CheckReport, Finding, LoadedRun
from rollwright.recipes.build.world import BuiltWorld, build_world
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.rechecking.gradients import rebuild, receipt_findings
from rollwright.recipes.rechecking.numbers import metric_findings
from rollwright.recipes.rechecking.steps import StageTerms, StoredStep, StoredSteps, stage_terms
from rollwright.recipes.rechecking.turns import turn_findings
from rollwright.recipes.rechecking.verdicts import asks_a_model, verdict_findings
from rollwright.recipes.rechecking.weights import StandingScores
from rollwright.recipes.resolve import resolve_text
from rollwright.record import ScoredTrajectory
from rollwright.rendering import load_renderer

__all__ = ["check_deeply"]

_SHOWN = 5
"""Findings of one kind in one update; what follows from one cause would hide the others."""


@dataclass(slots=True)
class _Deeper:
    run: LoadedRun
    findings: list[Finding] = field(default_factory=lambda: list[Finding]())
    unchecked: list[str] = field(default_factory=lambda: list[str]())

    def add(self, findings: Iterator[Finding]) -> None:
        """The first few of each kind."""
        counts: Counter[str] = Counter()
        for finding in findings:
            kind = finding.text.partition(" ")[0]
            counts[kind] += 1
            if counts[kind] <= _SHOWN:
                self.findings.append(finding)
        for kind, count in counts.items():
            if count > _SHOWN:
                last = next(f for f in reversed(self.findings) if f.text.startswith(kind))
                place = self.findings.index(last)
                self.findings[place] = replace(last, text=f"{last.text}; so {count - _SHOWN} more")


def check_deeply(run: LoadedRun, report: CheckReport) -> CheckReport:
    """Make again what the recipe makes, and compare.

    Args:
        run: as read.
        report: what its rows said of each other.

    Returns:
        The report with what was found besides, and what could not be made again.
    """
    deeper = _Deeper(run)
    try:
        recipe = resolve_text(run.folder.recipe_toml, origin=f"run {run.folder.path.name}").recipe
    except (RecipeError, OSError) as error:
        said = f"credit, weights, losses, metrics and verdicts: its recipe cannot be read here: {error}"
        return replace(report, not_checked=(*report.not_checked, said))
    steps = StoredSteps(run)
    if len(run.manifests) > 1:
        deeper.unchecked.append("steps of earlier segments: their recipe is not the one that the folder keeps.")
    members = _steps(deeper, steps, recipe)
    held_out = [member for _, of_commit in steps.evaluations() for member in of_commit]
    deeper.add(turn_findings([*members, *held_out], load_renderer(run.folder.tokenizer)))
    _verdicts(deeper, recipe, [m for m in (*members, *held_out) if m.verdicts])
    scores = StandingScores(run)
    deeper.add(scores.findings())
    deeper.unchecked += scores.unchecked
    findings = [Finding(place=t.partition(" holds")[0], text=t, concern="recipe") for t in steps.unreadable]
    return replace(
        report,
        findings=tuple(dict.fromkeys((*report.findings, *deeper.findings, *findings))),
        not_checked=(*report.not_checked, *deeper.unchecked),
    )


def _steps(deeper: _Deeper, steps: StoredSteps, recipe: RecipeConfig) -> list[ScoredTrajectory]:
    """Every step, made again; returns its members."""
    terms = stage_terms(recipe)
    members: list[ScoredTrajectory] = []
    for step in steps.steps():
        members += [m for g in step.groups for m in g.members]
        stage = terms.get(step.stage)
        if stage is None:
            deeper.unchecked.append(f"step {step.step}: the recipe has no stage {step.stage}.")
            continue
        _step(deeper, step, stage, recipe)
    return members


def _step(deeper: _Deeper, step: StoredStep, stage: StageTerms, recipe: RecipeConfig) -> None:
    try:
        updates = list(rebuild(step, stage))
    except Exception as error:  # noqa: BLE001 - parts from outside may raise anything over rows that were altered
        deeper.unchecked.append(f"step {step.step} cannot be made again: {type(error).__name__}: {error}")
        return
    for update in updates:
        deeper.add(receipt_findings(update, stage))
    deeper.add(metric_findings(deeper.run, step, updates, stage, recipe))


def _verdicts(deeper: _Deeper, recipe: RecipeConfig, members: Sequence[ScoredTrajectory]) -> None:
    """Verifiers are asked again, unless they are models."""
    if not members:
        return
    if asks_a_model(recipe):
        deeper.unchecked.append("verdicts: a model gave some of them, and is not asked again; `rollwright score` does.")
        return
    try:
        world: BuiltWorld = build_world(recipe)
    except Exception as error:  # noqa: BLE001 - a world from outside may raise anything
        deeper.unchecked.append(f"verdicts: the world of the recipe does not stand: {type(error).__name__}: {error}")
        return
    try:
        renderer = load_renderer(deeper.run.folder.tokenizer)
        found = verdict_findings(members, world.verifiers.composition, renderer)
        deeper.add(found)
        others = {m.reward_rule for m in members} - {world.verifiers.composition.revision, "none"}
        if others:
            rules = ", ".join(sorted(others))
            deeper.unchecked.append(f"verdicts of the reward rule {rules}: the verifiers here are of another revision.")
    finally:
        world.close()
