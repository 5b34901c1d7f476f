"""Episodes lived again: the driver, the environment and the renderer, with the stored turns in place of an engine.

What the world said, how it was rendered, what tools answered and why the episode ended follow from the turns; whatever
comes out otherwise is not what happened.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal

import numpy as np

from rollwright.evaluation import EvaluationProtocol
from rollwright.evidence import Finding
from rollwright.recipes.build.episodes import limits_of, sampling_of
from rollwright.recipes.build.world import BuiltWorld
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.config.world import ToolEnvironmentConfig, WorldEnvironmentConfig
from rollwright.recipes.worlds.table import WORLDS
from rollwright.record import (
    Capabilities,
    Chunk,
    EngineLostError,
    GenerationRequest,
    ScoreRequest,
    Scores,
    Segment,
    Swap,
    TerminalReason,
    ToolCall,
    Trajectory,
    WeightsManifest,
    evaluation_reset_seed,
    ids,
    logprobs,
)
from rollwright.rendering import Renderer
from rollwright.rollout import EpisodeSpec, Limits, SystemClock, run_episode

__all__ = ["Replayed", "is_played_again", "play_again"]

_MOST_EPISODES = 1000
_ACTED = ("policy", "demonstration")
_OUTSIDE = (
    TerminalReason.INFRASTRUCTURE_FAILURE,
    TerminalReason.ABORTED,
    TerminalReason.SUPERSEDED,
    TerminalReason.WALL_CLOCK_LIMIT,
    TerminalReason.SAFETY_STOP,
)
"""Ends that do not follow from the turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came of it."""

    findings: tuple[Finding, ...]
    unchecked: tuple[str, ...]


def is_played_again(recipe: RecipeConfig, world: BuiltWorld) -> bool:
    """True for worlds that ship, answer from the task and the seed alone, and run no program of anybody's."""
    match recipe.environment:
        case ToolEnvironmentConfig():
            return all(":" not in tool for tool in recipe.environment.tools)
        case WorldEnvironmentConfig():
            made = world.world
            is_closed = made is not None and not (made.sandbox_profile or made.server or made.snapshot)
            return recipe.environment.name in WORLDS and is_closed
        case _:
            return False


def play_again(
    members: Sequence[Trajectory],
    *,
    recipe: RecipeConfig,
    world: BuiltWorld,
    renderer: Renderer,
    protocols: Sequence[EvaluationProtocol],
) -> Replayed:
    """Live episodes again and compare.

    Args:
        members: any; those that did not end by themselves, went on from others, or are of another revision of the
            environment or of the rendering are left out.
        recipe: whose limits hold.
        world: where they lived.
        renderer: of the run's tokenizer.
        protocols: whose budgets evaluations had.
    """
    playing = _Playing(recipe=recipe, world=world, renderer=renderer, protocols=tuple(protocols))
    chosen = [one for one in members if playing.can_play(one)][:_MOST_EPISODES]
    unchecked: list[str] = []
    if len(chosen) < len(members):
        unchecked.append(
            f"what the world answered in {len(members) - len(chosen)} of {len(members)} episodes: they cannot be lived "
            "again here."
        )
    found: list[Finding] = []
    differ: list[str] = []
    for before, now in zip(chosen, asyncio.run(playing.play(chosen)), strict=True):
        differences = list(_differences(before, now))
        if not differences:
            continue
        if list(_differences(before, asyncio.run(playing.play([before]))[0])) != differences:
            unchecked.append(f"what the world answered in {before.trajectory_id}: it answers otherwise each time.")
            continue
        differ.append(before.trajectory_id)
        found += differences
    if len(differ) > max(8, len(chosen) // 2):
        unchecked.append(
            f"what the world answered: {len(differ)} of {len(chosen)} episodes come out otherwise when they are lived "
            f"again here, such as {found[0].place}: {found[0].text}; this is not the code that lived them."
        )
        found = []
    return Replayed(findings=tuple(found), unchecked=tuple(unchecked))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Playing:
    recipe: RecipeConfig
    world: BuiltWorld
    renderer: Renderer
    protocols: tuple[EvaluationProtocol, ...]

    def can_play(self, one: Trajectory) -> bool:
        """Whether the same comes of it here, if it is what happened."""
        environment = self.world.environment
        is_ours = one.environment == environment.name and one.environment_revision == environment.revision
        origins = {segment.origin for segment in one.segments}
        return (
            is_ours
            and one.lineage in (None, "retry_of")
            and one.terminal_reason not in _OUTSIDE
            and not origins & {"teacher", "replayed"}
            and self._limits(one) is not None
        )

    async def play(self, members: Sequence[Trajectory]) -> list[Trajectory]:
        """One after the other."""
        return [await self._play(one) for one in members]

    async def _play(self, one: Trajectory) -> Trajectory:
        limits = self._limits(one)
        assert limits is not None, "asked of what can be played"
        engine = _StoredTurns(one, self.recipe.engine.max_context_tokens)
        spec = EpisodeSpec(
            purpose=one.purpose,
            stage=one.stage,
            group_id=one.group_id,
            slot=one.slot,
            attempt=one.attempt,
            task=one.task,
            reset_seed=one.reset_seed,
            episode_seed=0,
            sampling=sampling_of(self.recipe),
            limits=limits,
            lineage=one.lineage,
            parent_trajectory_id=one.parent_trajectory_id,
            action_origin="demonstration" if one.purpose == "demonstration" else "policy",
            sandbox_profile=one.sandbox_profile,
        )
        return await run_episode(
            spec,
            engines=dict.fromkeys(self.world.environment.actors.values(), engine),
            environment=self.world.environment,
            renderer=self.renderer,
            clock=SystemClock(),
        )

    def _limits(self, one: Trajectory) -> Limits | None:
        limits = limits_of(self.recipe)
        if one.purpose != "evaluation":
            return limits
        for protocol in self.protocols:
            if one.reset_seed == evaluation_reset_seed(protocol.sha256, one.task.task_id):
                return replace(
                    limits,
                    turns=protocol.max_turns,
                    turn_tokens=protocol.max_turn_tokens,
                    episode_tokens=protocol.max_episode_tokens,
                )
        return None


class _StoredTurns:
    """Answers the requests of one episode with the turns that are stored of it."""

    def __init__(self, one: Trajectory, max_context_tokens: int) -> None:
        self._turns: dict[int, list[Segment]] = defaultdict(list)
        for segment in one.segments:
            if segment.origin in _ACTED and segment.copied_from is None:
                self._turns[segment.turn].append(segment)
        self._max_context_tokens = max_context_tokens

    @property
    def capabilities(self) -> Capabilities:
        """Deterministic, of the length that the run's engine had."""
        return Capabilities(
            has_sampled_distribution=True,
            has_version_per_token=True,
            is_deterministic=True,
            swaps=frozenset[Swap](),
            tensors=frozenset(),
            max_context_tokens=self._max_context_tokens,
            num_slots=2**20,
        )

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """The turn that the request is of."""
        number = int(request.request_id.rpartition("/t")[2].partition(".")[0])
        segments = self._turns.get(number, [])
        if not segments:
            raise EngineLostError(f"turn {number} was opened, and no tokens of it are stored")
        drawn = np.concatenate([segment.token_ids for segment in segments])
        is_stopped = len(drawn) > 0 and int(drawn[-1]) in request.stop_token_ids
        if not is_stopped and len(drawn) != request.max_tokens:
            raise EngineLostError(
                f"turn {number} has {len(drawn)} tokens without a stop, where {request.max_tokens} could be drawn"
            )
        for place, segment in enumerate(segments):
            finish: Literal["stop_token", "length"] | None = "stop_token" if is_stopped else "length"
            yield Chunk(
                token_ids=ids(segment.token_ids),
                behavior_logprobs=logprobs(np.zeros(segment.num_tokens)),
                policy_version=segment.policy_version or 0,
                cache_version=segment.cache_version or 0,
                tensors={},
                finish=finish if place == len(segments) - 1 else None,
            )

    async def score(self, request: ScoreRequest) -> Scores:
        """Refused: there is no model."""
        raise EngineLostError("stored turns have no model to score with.")

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Nothing to do."""

    async def cancel(self, request_id: str) -> None:
        """Nothing to do."""

    async def release(self, session: str) -> None:
        """Nothing to do."""

    async def pause(self) -> None:
        """Nothing to do."""

    async def resume(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""


def _differences(before: Trajectory, now: Trajectory) -> Iterator[Finding]:
    """The calls that were answered otherwise, the first segment that is another, and the end."""
    name = before.trajectory_id
    for said, due in zip_longest(before.tool_calls, now.tool_calls):
        yield from _call(name, said, due)
    for said, due in zip_longest(before.segments, now.segments):
        difference = _segment(name, said, due)
        if difference is not None:
            yield difference
            break
    if before.terminal_reason != now.terminal_reason:
        cause = "" if now.failure_cause is None else f": {now.failure_cause}"
        yield _finding(
            f"trajectories {name}", f"terminal_reason is {before.terminal_reason}", f"{now.terminal_reason}{cause}"
        )


def _call(name: str, said: ToolCall | None, due: ToolCall | None) -> Iterator[Finding]:
    if said is None or due is None:
        call = said or due
        which = "is stored and was not asked" if due is None else "was asked and is not stored"
        yield _finding(f"tool_calls {call.call_id if call else name}", f"the call {which}", "the calls of its turns")
        return
    for what, left, right in (
        ("status", said.status, due.status),
        ("tool", said.tool, due.tool),
        ("arguments", said.arguments, due.arguments),
        ("result", said.result, due.result),
        ("asked_in", said.asked_in, due.asked_in),
        ("answered_in", said.answered_in, due.answered_in),
    ):
        if left != right and not (what == "result" and said.retention != due.retention):
            yield _finding(f"tool_calls {said.call_id}", f"{what} is {left!r}", f"{right!r}")


def _segment(name: str, said: Segment | None, due: Segment | None) -> Finding | None:
    if said is None or due is None:
        found = said or due
        number = found.segment if found is not None else 0
        which = "is stored and did not come about" if due is None else "came about and is not stored"
        return _finding(f"segments {name} {number}", f"the segment {which}", "the segments of its turns")
    if said.origin != due.origin:
        return _finding(
            f"segments {name} {said.segment}",
            f"it is {said.num_tokens} tokens of origin {said.origin}",
            f"{due.num_tokens} tokens of origin {due.origin}",
        )
    left, right = ([int(one) for one in segment.token_ids] for segment in (said, due))
    for index, (one, other) in enumerate(zip_longest(left, right)):
        if one != other:
            return _finding(f"{name}/{said.segment}/{index}", f"its token is {one}", f"{other}")
    if said.finish != due.finish:
        return _finding(f"segments {name} {said.segment}", f"finish is {said.finish}", f"{due.finish}")
    return None


def _finding(place: str, text: str, due: str) -> Finding:
    return Finding(place=place, text=text, expected=f"{due}, when the episode is lived again", concern="recipe")
