"""The judged trajectories of a run, and a seeded sample of them: as many accepted as rejected, by source."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Self, cast

from rollwright.evidence import StoredRun, query
from rollwright.recipes.audits.judging import Judgement, judge_all
from rollwright.recipes.build.verifiers import answer_form
from rollwright.recipes.build.world import build_world
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import resolve_text
from rollwright.record import Passage, Submission, Task, Verifier, seed_of
from rollwright.rendering import load_renderer
from rollwright.rollout import submission_of
from rollwright.verifiers import AnswerRule, Composition

__all__ = ["AuditedRun", "JudgedRow", "with_final_text"]

_JUDGED = """SELECT trajectory_id, task_source, reward FROM trajectories
  WHERE reward IS NOT NULL AND purpose IN ('train', 'evaluation')
    AND trajectory_id IN (SELECT trajectory_id FROM verdicts WHERE scoring = 0)
  ORDER BY trajectory_id"""
_ALL = "SELECT count(*) FROM trajectories WHERE purpose IN ('train', 'evaluation')"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRow:
    """A trajectory that got a number when the run was made."""

    trajectory_id: str
    source: str
    reward: float
    is_accepted: bool


class AuditedRun:
    """A run whose verifiers are looked at; a context manager, which ends what they started."""

    def __init__(self, path: Path) -> None:
        """Open the run.

        Raises:
            RecipeError: where nothing in it was judged.
            EvidenceError: where the folder is no run.
        """
        self.path = path
        self._stored = StoredRun(path)
        self.recipe: RecipeConfig = resolve_text(self._stored.folder.recipe_toml, origin=f"run {path.name}").recipe
        self.threshold = self.recipe.verifier.success_threshold
        found = cast("tuple[tuple[str, str, float], ...]", query(path, _JUDGED).rows)
        self.rows = tuple(
            JudgedRow(trajectory_id=name, source=source, reward=reward, is_accepted=reward >= self.threshold)
            for name, source, reward in found
        )
        if not self.rows:
            raise RecipeError(f"{path} holds no trajectory that was judged; there is nothing to audit.")
        ((num,),) = query(path, _ALL).rows
        self.num_unjudged = cast("int", num) - len(self.rows)
        self._stack = ExitStack()
        self._composition: Composition | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def stack(self) -> ExitStack:
        """Closes what is opened for the audit."""
        return self._stack

    @property
    def rule(self) -> AnswerRule:
        """Where the run's answers stand."""
        asked = self.recipe.verifier
        return AnswerRule(form=asked.answer_form, marker=asked.answer_marker)

    @property
    def answer_form(self) -> str:
        """How an answer is written; `{}` stands for it."""
        return answer_form(self.recipe.verifier)

    def composition(self) -> Composition:
        """The verifiers of the run's recipe, made at the first call."""
        if self._composition is None:
            world = build_world(self.recipe)
            self._stack.callback(world.close)
            self._composition = world.verifiers.composition
        return self._composition

    def sample(self, num: int, seed: int) -> tuple[JudgedRow, ...]:
        """At most `num` trajectories: half of them accepted where there are as many, in proportion to the sources."""
        accepted = [row for row in self.rows if row.is_accepted]
        rejected = [row for row in self.rows if not row.is_accepted]
        few, many = sorted((accepted, rejected), key=len)
        num_few = min(len(few), num // 2)
        chosen = [*_of_sources(few, num_few, seed), *_of_sources(many, min(len(many), num - num_few), seed)]
        return tuple(sorted(chosen, key=lambda row: row.trajectory_id))

    def submissions(self, rows: Sequence[JudgedRow]) -> list[Submission]:
        """What verifiers are shown of those trajectories, in their order."""
        renderer = load_renderer(self._stored.folder.tokenizer)
        found = self._stored.trajectories([row.trajectory_id for row in rows])
        return [submission_of(scored.trajectory, renderer) for scored in found]

    def judge(self, verifier: Verifier | Composition, submissions: Sequence[Submission]) -> list[Judgement]:
        """Judge each by itself."""
        return asyncio.run(judge_all(verifier, submissions, success_at=self.threshold))


def with_final_text(submission: Submission, change: Callable[[str], str], *, task: Task | None = None) -> Submission:
    """The same episode with another end: what the policy said last, changed; the text alone where it said nothing."""
    place = max((at for at, passage in enumerate(submission.passages) if passage.kind == "policy"), default=None)
    passages = list(submission.passages)
    if place is None:
        passages.append(Passage(actor="agent", kind="policy", text=change("")))
    else:
        passages[place] = replace(passages[place], text=change(passages[place].text))
    return replace(submission, passages=tuple(passages), task=task or submission.task)


def _of_sources(rows: Sequence[JudgedRow], num: int, seed: int) -> list[JudgedRow]:
    """A draw in which every source has its share, by largest remainders."""
    if not rows or num <= 0:
        return []
    sizes = Counter(row.source for row in rows)
    due = {source: num * size / len(rows) for source, size in sizes.items()}
    taken = {source: int(share) for source, share in due.items()}
    rest = sorted(due, key=lambda source: (taken[source] - due[source], source))[: num - sum(taken.values())]
    found: list[JudgedRow] = []
    for source in sorted(sizes):
        mine = [row for row in rows if row.source == source]
        chance = Random(seed_of(seed, "audit", source, rows[0].is_accepted))
        found += chance.sample(mine, taken[source] + (source in rest))
    return found
