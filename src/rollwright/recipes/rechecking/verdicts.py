"""Verdicts and rewards, given again by the recipe's verifiers to the stored episodes read as text."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence

from rollwright.evidence import Finding
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.record import ScoredTrajectory
from rollwright.rendering import Renderer
from rollwright.rollout import submission_of
from rollwright.verifiers import Composition, Score

__all__ = ["asks_a_model", "verdict_findings"]

_MODELS = frozenset({"judge", "equivalence", "rubric", "pairwise", "reward_model"})
_AT_ONCE = 64


def asks_a_model(recipe: RecipeConfig) -> bool:
    """True where some part of the reward is a model's judgment, which is not asked for again."""
    return any(part.kind in _MODELS for part in recipe.verifier.parts)


def verdict_findings(
    members: Sequence[ScoredTrajectory], composition: Composition, renderer: Renderer
) -> Iterator[Finding]:
    """Where a verdict or a reward is another one now.

    Args:
        members: scored ones of any groups.
        composition: of the recipe; verdicts of another revision are left out.
        renderer: of the run's tokenizer.
    """
    groups: dict[int, list[ScoredTrajectory]] = defaultdict(list)
    for member in members:
        if member.reward_rule == composition.revision:
            groups[member.trajectory.group_id].append(member)
    listed = list(groups.values())
    for start in range(0, len(listed), _AT_ONCE):
        part = listed[start : start + _AT_ONCE]
        scores = asyncio.run(_score(part, composition, renderer))
        for group, of_group in zip(part, scores, strict=True):
            for member, score in zip(group, of_group, strict=True):
                yield from _compare(member, score)


async def _score(
    groups: Sequence[Sequence[ScoredTrajectory]], composition: Composition, renderer: Renderer
) -> list[tuple[Score, ...]]:
    async with asyncio.TaskGroup() as running:
        tasks = [
            running.create_task(
                composition.score([submission_of(m.trajectory, renderer) for m in members]),
                name=f"score group {members[0].trajectory.group_id}",
            )
            for members in groups
        ]
    return [task.result() for task in tasks]


def _compare(member: ScoredTrajectory, score: Score) -> Iterator[Finding]:
    said = {(v.verifier, v.scope): v for v in member.verdicts}
    name = member.trajectory_id
    for verdict in score.verdicts:
        before = said.get((verdict.verifier, verdict.scope))
        if before is None or before.revision != verdict.revision:
            continue
        for what, left, right in (
            ("value", verdict.outcome, before.outcome),
            ("finding", verdict.finding, before.finding),
            ("evidence", verdict.evidence, before.evidence),
        ):
            if left != right:
                yield Finding(
                    place=f"verdicts {name} {verdict.verifier}",
                    text=f"{what} is {right!r}",
                    expected=f"{left!r}, what the verifier says of the stored tokens",
                    concern="recipe",
                )
    if score.outcome != member.outcome:
        yield Finding(
            place=f"trajectories {name}",
            text=f"reward is {member.outcome!r}",
            expected=f"{score.outcome!r}, what the verifiers say of the stored tokens",
            concern="recipe",
        )
