"""Score a stored run again without a model: its trajectories as text, the same or other verifiers, what changed.

run folder ──► trajectories, group by group ──► submissions ──► verifiers ──► verdicts of a new scoring
                                                                               beside what was said before
"""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from rollwright.evidence import CommitRows, Event, RunFolder, StoredRun, query
from rollwright.recipes.build.named import VERIFIER, make_named
from rollwright.recipes.build.named_verifiers import named_verifier
from rollwright.recipes.build.world import build_world
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import resolve_text
from rollwright.record import GradingError, RewardComponent, ScoredTrajectory, Verdict, Verifier, canonical_json
from rollwright.record.codec import ScoredVerdict
from rollwright.rendering import Renderer, load_renderer
from rollwright.rollout import submission_of
from rollwright.statistics import Interval, wilson_interval
from rollwright.verifiers import AnswerRule, Composition, Part, Score, ThreadedVerifier
from rollwright.verifiers.scales import ComponentScale, ComponentValue, component_scales

__all__ = ["OF_THE_RECIPE", "REWARD", "Change", "Rescored", "ScoreOrder", "ScoreResult", "score_run", "scales_of_run"]

OF_THE_RECIPE = "recipe"
"""Names the verifiers of the run's own recipe, with their weights."""
REWARD = "reward"
"""The verifier's name under which a scoring keeps the composed reward."""
_GROUPS_AT_ONCE = 32
_SCORED = """SELECT group_id, list(trajectory_id ORDER BY slot, attempt) FROM trajectories
  WHERE trajectory_id IN (SELECT trajectory_id FROM verdicts WHERE scoring = 0 AND scope IN ('trajectory', 'group'))
  GROUP BY group_id ORDER BY group_id"""
_COMPONENTS = """SELECT task_source, part.name, part.value, part.weight
  FROM (SELECT task_source, unnest(reward_components) AS part FROM trajectories WHERE purpose = 'train')"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOrder:
    """What `score` was asked for."""

    run: Path
    verifiers: tuple[str, ...]
    """Each `recipe`, the name of a verifier, or `package.module:callable`, which returns a `record.Verifier`."""
    reason: str
    """Why; kept with the new verdicts."""
    out: Path | None = None
    """A file for the verdicts; None: they become a scoring of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One trajectory whose new value is not the old one."""

    trajectory_id: str
    before: float | str
    """A number, or why there was none."""
    after: float | str
    revision_before: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """One verifier over a whole run."""

    verifier: str
    revision: str
    compared_with: str
    """`verdict`: what the verifier of this name said; `reward`: the trajectory's reward, where none had the name."""
    num: int
    num_same: int
    """Equal to the last bit, or the same cause of having no number."""
    num_agreeing: int
    """Of `num_numbers`: on the same side of the success threshold."""
    num_numbers: int
    """A number before and after."""
    num_errors: int
    """No number now."""
    agreement: Interval
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreResult:
    """What a scoring came to."""

    run_dir: str
    scoring: int | None
    """Its number in the run; None: written elsewhere."""
    num_trajectories: int
    rescored: tuple[Rescored, ...]
    scales: tuple[ComponentScale, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """One new verdict beside the old one."""

    verdict: Verdict
    before: float | str
    revision_before: str
    compared_with: str


def score_run(order: ScoreOrder) -> ScoreResult:
    """Score every trajectory that was scored when the run was made.

    Raises:
        RecipeError: for a verifier that cannot be had.
        EvidenceError: when the folder is no run, or is being written.
    """
    started = time.monotonic()
    order = replace(order, reason=_storable(order.reason))
    with ExitStack() as stack:
        # Held from the start: a run that is being written is refused before hours of grading.
        folder = None if order.out is not None else stack.enter_context(RunFolder.open(order.run, "write"))
        stored = StoredRun(order.run)
        recipe = resolve_text(stored.folder.recipe_toml, origin=f"run {order.run.name}").recipe
        scorers = [_scorer(name, recipe, stack) for name in dict.fromkeys(order.verifiers)]
        _refuse_one_name_twice(scorers)
        said, values, num = asyncio.run(_score_all(stored, scorers, order))
        scoring = None
        if folder is not None:
            scoring = _commit(folder, said, order)
        elif order.out is not None:
            _write(order.out, said)
        return ScoreResult(
            run_dir=str(order.run),
            scoring=scoring,
            num_trajectories=num,
            rescored=_rescored(said, recipe.verifier.success_threshold, recipe.evaluation.level),
            scales=component_scales(values),
            seconds=time.monotonic() - started,
        )


def scales_of_run(run: Path) -> tuple[ComponentScale, ...]:
    """The raw parts of the rewards that a run was trained on, by source."""
    rows = cast("tuple[tuple[str, str, float, float], ...]", query(run, _COMPONENTS).rows)
    return component_scales(
        ComponentValue(source=source, component=name, value=value, weight=weight)
        for source, name, value, weight in rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scorer:
    composition: Composition
    says_reward: bool
    """The composed reward is kept as well: where the parts are those of a recipe."""

    def said(self, member: ScoredTrajectory, score: Score, reason: str) -> Iterator[_Said]:
        """The new verdicts of one trajectory beside the old ones."""
        before = {verdict.verifier: verdict for verdict in member.verdicts}
        for verdict in score.verdicts:
            old = before.get(verdict.verifier)
            if old is None:
                yield _Said(
                    verdict=verdict,
                    before=member.outcome,
                    revision_before=member.reward_rule,
                    compared_with="reward",
                )
            else:
                yield _Said(verdict=verdict, before=old.outcome, revision_before=old.revision, compared_with="verdict")
        if self.says_reward:
            yield _Said(
                verdict=_reward(member, score, reason),
                before=member.outcome,
                revision_before=member.reward_rule,
                compared_with="reward",
            )


def _storable(reason: str) -> str:
    """Without halves of characters, which a command line or a traceback of another encoding brings."""
    return reason.encode(errors="replace").decode()


def _scorer(name: str, recipe: RecipeConfig, stack: ExitStack) -> _Scorer:
    asked = recipe.verifier
    if name == OF_THE_RECIPE:
        world = build_world(recipe)
        stack.callback(world.close)
        return _Scorer(composition=world.verifiers.composition, says_reward=True)
    if ":" not in name:
        named = named_verifier(name, rule=AnswerRule(form=asked.answer_form, marker=asked.answer_marker))
        stack.callback(named.close)
        return _Scorer(composition=Composition([Part(verifier=named.verifier)]), says_reward=False)
    verifier = ThreadedVerifier(cast("Verifier", make_named(name, {}, needs=VERIFIER)))
    return _Scorer(composition=Composition([Part(verifier=verifier)]), says_reward=False)


def _refuse_one_name_twice(scorers: Sequence[_Scorer]) -> None:
    """A scoring has one verdict a verifier and trajectory."""
    names = [part.verifier.name for scorer in scorers for part in scorer.composition.parts]
    names += [REWARD for scorer in scorers if scorer.says_reward]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RecipeError(
            f"two of the verifiers are named {twice[0]!r}, and a scoring keeps one verdict of a name; score by them "
            "one after the other."
        )


async def _score_all(
    stored: StoredRun, scorers: Sequence[_Scorer], order: ScoreOrder
) -> tuple[list[_Said], list[ComponentValue], int]:
    """New verdicts, raw parts of rewards, and over how many trajectories."""
    renderer = load_renderer(stored.folder.tokenizer)
    said: list[_Said] = []
    values: list[ComponentValue] = []
    num = 0
    for groups in _groups(stored, order.run):
        num += sum(map(len, groups))
        for scorer in scorers:
            for member, score in await _score(scorer, groups, renderer):
                said += scorer.said(member, score, order.reason)
                source = member.trajectory.task.source
                values += [_value(source, component) for component in score.reward_components]
    return said, values, num


def _groups(stored: StoredRun, run: Path) -> Iterator[tuple[tuple[ScoredTrajectory, ...], ...]]:
    """The members that were scored together, some groups at a time."""
    rows = cast("tuple[tuple[int, list[str]], ...]", query(run, _SCORED).rows)
    for start in range(0, len(rows), _GROUPS_AT_ONCE):
        part = rows[start : start + _GROUPS_AT_ONCE]
        found = {t.trajectory_id: t for t in stored.trajectories([name for _, names in part for name in names])}
        yield tuple(tuple(found[name] for name in names) for _, names in part)


async def _score(
    scorer: _Scorer, groups: Sequence[Sequence[ScoredTrajectory]], renderer: Renderer
) -> list[tuple[ScoredTrajectory, Score]]:
    async with asyncio.TaskGroup() as running:
        tasks = [
            running.create_task(
                scorer.composition.score([submission_of(m.trajectory, renderer) for m in members]),
                name=f"score group {members[0].trajectory.group_id}",
            )
            for members in groups
        ]
    return [
        pair for members, task in zip(groups, tasks, strict=True) for pair in zip(members, task.result(), strict=True)
    ]


def _reward(member: ScoredTrajectory, score: Score, reason: str) -> Verdict:
    """The composed reward as a verdict, with what it was, by which rule, and why it was looked at again."""
    kept = {"reason": reason, "was": member.outcome, "was_rule": member.reward_rule}
    return Verdict(
        trajectory_id=member.trajectory_id,
        verifier=REWARD,
        revision=score.reward_rule,
        scope="trajectory",
        # A composition that was asked has a number, or the cause of one of its parts.
        outcome=cast("float | GradingError", score.outcome),
        evidence=canonical_json(kept),
        latency_s=score.verifying_s,
    )


def _value(source: str, component: RewardComponent) -> ComponentValue:
    return ComponentValue(source=source, component=component.name, value=component.value, weight=component.weight)


def _commit(folder: RunFolder, said: Sequence[_Said], order: ScoreOrder) -> int:
    ((last,),) = query(order.run, "SELECT coalesce(max(scoring), 0) FROM verdicts").rows
    scoring = cast("int", last) + 1
    step = max((commit.step for commit in folder.commits), default=0)
    rows = CommitRows(
        kind="score", step=step, rescored=[ScoredVerdict(scoring=scoring, verdict=s.verdict) for s in said]
    )
    now = datetime.now(UTC)
    folder.commit(rows, at=now)
    folder.record_event(
        Event(
            at=now,
            kind="rescored",
            text=order.reason,
            step=step,
            fields={"scoring": str(scoring), "verifiers": ", ".join(order.verifiers)},
        )
    )
    return scoring


def _write(path: Path, said: Sequence[_Said]) -> None:
    lines = [
        json.dumps(
            {
                "trajectory_id": s.verdict.trajectory_id,
                "verifier": s.verdict.verifier,
                "revision": s.verdict.revision,
                "outcome": s.verdict.outcome,
                "before": s.before,
                "revision_before": s.revision_before,
                "finding": s.verdict.finding,
                "components": {part.name: part.value for part in s.verdict.components},
                "evidence": s.verdict.evidence,
            },
            ensure_ascii=False,
        )
        for s in said
    ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _rescored(said: Sequence[_Said], threshold: float, level: float) -> tuple[Rescored, ...]:
    by_verifier: dict[str, list[_Said]] = {}
    for one in said:
        by_verifier.setdefault(one.verdict.verifier, []).append(one)
    return tuple(_over(name, found, threshold, level) for name, found in by_verifier.items())


def _over(name: str, said: Sequence[_Said], threshold: float, level: float) -> Rescored:
    pairs = [(s.before, s.verdict.outcome) for s in said]
    numbers = [(b, a) for b, a in pairs if not isinstance(b, str) and not isinstance(a, str)]
    agreeing = sum((before >= threshold) == (after >= threshold) for before, after in numbers)
    return Rescored(
        verifier=name,
        revision=said[0].verdict.revision,
        compared_with=said[0].compared_with,
        num=len(said),
        num_same=sum(before == after for before, after in pairs),
        num_agreeing=agreeing,
        num_numbers=len(numbers),
        num_errors=sum(isinstance(after, str) for _, after in pairs),
        agreement=wilson_interval(agreeing, len(numbers), level=level),
        changes=tuple(
            Change(
                trajectory_id=s.verdict.trajectory_id,
                before=s.before,
                after=s.verdict.outcome,
                revision_before=s.revision_before,
                evidence=s.verdict.evidence,
            )
            for s in said
            if s.before != s.verdict.outcome
        ),
    )
