"""`check_deeply`: steps in order, then verdicts, evaluations, and the scores of weights that still stand."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rollwright.evaluation import EvaluationProtocol
from rollwright.evidence import CheckReport, Finding, LoadedRun
from rollwright.recipes.build.protocols import build_protocols
from rollwright.recipes.build.terms import StageTerms, stage_terms
from rollwright.recipes.build.world import BuiltWorld, build_world
from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.rechecking.beginnings import eligible_findings, renderer_of_run
from rollwright.recipes.rechecking.evaluations import evaluation_findings
from rollwright.recipes.rechecking.gradients import rebuild, receipt_findings
from rollwright.recipes.rechecking.numbers import metric_findings
from rollwright.recipes.rechecking.played_again import is_played_again, play_again
from rollwright.recipes.rechecking.steps import StoredStep, StoredSteps
from rollwright.recipes.rechecking.turns import turn_findings
from rollwright.recipes.rechecking.verdicts import asks_a_model, verdict_findings
from rollwright.recipes.rechecking.weights import StandingScores
from rollwright.recipes.resolve import resolve_text
from rollwright.record import ScoredTrajectory
from rollwright.rendering import Renderer

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
    commits = list(steps.evaluations())
    held_out = [member for _, of_commit in commits for member in of_commit]
    deeper.add(eligible_findings(run, recipe))
    renderer = renderer_of_run(deeper.add, run)
    if renderer is None:
        deeper.unchecked.append("turns, verdicts and what the world answered: the tokenizer is not the run's.")
    else:
        read = [m for m in (*members, *held_out) if _is_readable(m, run.foreign_ids)]
        deeper.add(turn_findings(read, renderer))
        _world(deeper, recipe, _Read(members=read, commits=commits, renderer=renderer))
    scores = StandingScores(run)
    deeper.add(scores.findings())
    deeper.unchecked += scores.unchecked
    findings = [Finding(place=t.partition(" holds")[0], text=t, concern="recipe") for t in steps.unreadable]
    return replace(
        report,
        findings=tuple(sorted(dict.fromkeys((*report.findings, *deeper.findings, *findings)), key=_is_derived)),
        not_checked=(*report.not_checked, *deeper.unchecked),
    )


def _is_derived(finding: Finding) -> bool:
    """False for what may be the cause of the rest: it is named first."""
    return not finding.place.startswith(("tokenizer", "manifest", "recipe.toml"))


def _steps(deeper: _Deeper, steps: StoredSteps, recipe: RecipeConfig) -> list[ScoredTrajectory]:
    """Every step, made again; returns its members."""
    terms = {stage.name: stage_terms(stage, recipe) for stage in recipe.stages}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What the run's tokenizer reads."""

    members: Sequence[ScoredTrajectory]
    commits: Sequence[tuple[int, tuple[ScoredTrajectory, ...]]]
    """Number to held-out episodes."""
    renderer: Renderer


def _is_readable(member: ScoredTrajectory, foreign: frozenset[int]) -> bool:
    return not foreign or all(foreign.isdisjoint(s.token_ids.tolist()) for s in member.trajectory.segments)


def _world(deeper: _Deeper, recipe: RecipeConfig, read: _Read) -> None:
    """Episodes are lived again, verifiers are asked again unless they are models, evaluations are measured again."""
    if not read.members:
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
        protocols = _protocols(deeper, recipe, world, read)
        _lived(deeper, recipe, world, (read, protocols))
        _verdicts(deeper, world, read)
        before = recipe.stages[:-1]
        start = sum(s.steps if isinstance(s, SupervisedStageConfig) else recipe.run.steps for s in before)
        deeper.add(evaluation_findings(deeper.run, read.commits, protocols, start))
    finally:
        world.close()


def _protocols(deeper: _Deeper, recipe: RecipeConfig, world: BuiltWorld, read: _Read) -> tuple[EvaluationProtocol, ...]:
    """Those of the recipe, where the run's evaluations are of their digests."""
    revisions = {m.trajectory.rendering_revision for m in read.members if m.trajectory.purpose == "evaluation"}
    try:
        found = [one for revision in sorted(revisions) for one in build_protocols(recipe, world, revision)]
    except (RecipeError, ValueError) as error:
        deeper.unchecked.append(f"evaluations were not measured again: {error}")
        return ()
    said = {str(row[0]) for row in deeper.run.rows("SELECT DISTINCT protocol_sha256 FROM evaluations")}
    if said - {one.sha256 for one in found}:
        deeper.unchecked.append("intervals of evaluations under protocols that the recipe does not make here.")
    return tuple(found)


def _lived(
    deeper: _Deeper, recipe: RecipeConfig, world: BuiltWorld, given: tuple[_Read, tuple[EvaluationProtocol, ...]]
) -> None:
    read, protocols = given
    if not is_played_again(recipe, world):
        deeper.unchecked.append("what the world answered: it is not one whose episodes can be lived again.")
        return
    trajectories = [member.trajectory for member in read.members]
    played = play_again(trajectories, recipe=recipe, world=world, renderer=read.renderer, protocols=protocols)
    deeper.add(iter(played.findings))
    deeper.unchecked += played.unchecked


def _verdicts(deeper: _Deeper, world: BuiltWorld, read: _Read) -> None:
    members = [member for member in read.members if member.verdicts]
    deeper.add(verdict_findings(members, world.verifiers.composition, read.renderer))
    others = {m.reward_rule for m in members} - {world.verifiers.composition.revision, "none"}
    if others:
        rules = ", ".join(sorted(others))
        deeper.unchecked.append(f"verdicts of the reward rule {rules}: the verifiers here are of another revision.")
