"""How an attempt becomes an episode: seeds, sampling and limits of training, demonstrations and evaluation."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rollwright.engines.played import PlayedEngine
from rollwright.environments import DemonstratingEnvironment
from rollwright.evaluation import EvaluationAttempt, EvaluationProtocol
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.record import (
    Engine,
    Environment,
    Sampling,
    ScoredTrajectory,
    Trajectory,
    episode_seed,
    evaluation_episode_seed,
    evaluation_reset_seed,
    reset_seed,
)
from rollwright.rendering import Renderer
from rollwright.rollout import Clock, EpisodeSpec, Leg, Limits, Parked, run_episode, run_leg, submission_of
from rollwright.runtime.metered import MeteredEnvironment
from rollwright.runtime.parts import Attempt
from rollwright.runtime.timebook import TimeBook
from rollwright.verifiers import Composition

__all__ = ["Episodes", "limits_of", "sampling_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """Runs and scores the episodes of one run."""

    recipe: RecipeConfig
    engine: Engine
    environment: Environment
    renderer: Renderer
    composition: Composition
    sandbox_profile: str | None
    clock: Clock
    book: TimeBook
    places: asyncio.Semaphore
    """Bounds how many evaluation episodes are open at once; training has its dispatcher's own bound."""

    async def train(self, attempt: Attempt) -> Trajectory | Parked:
        """One attempt of the policy at a training task; where it parks at limits, what another one needs to go on."""
        return await run_leg(
            Leg(spec=self._spec(attempt), past=attempt.past, at_limit=attempt.at_limit, when_superseded="park"),
            engines=self._engines(self.engine),
            environment=MeteredEnvironment(self.environment, self.book),
            renderer=self.renderer,
            clock=self.clock,
            interruption=attempt.interruption,
        )

    async def demonstrate(self, attempt: Attempt, environment: DemonstratingEnvironment) -> Trajectory:
        """One demonstration, played by the same driver through the same environment."""
        spec = replace(self._spec(attempt), action_origin="demonstration")
        turns = environment.demonstrate(attempt.task, spec.episode_seed)
        played = [
            self.renderer.encode_turn(turn.text, [(call.tool, call.arguments) for call in turn.calls]) for turn in turns
        ]
        return await self._run(spec, PlayedEngine(played))

    async def evaluate(self, protocol: EvaluationProtocol, attempt: EvaluationAttempt) -> Trajectory:
        """One attempt of the policy at a held-out task, with the protocol's seeds and budgets."""
        sha256 = protocol.sha256
        limits = replace(
            limits_of(self.recipe),
            turns=protocol.max_turns,
            turn_tokens=protocol.max_turn_tokens,
            episode_tokens=protocol.max_episode_tokens,
        )
        spec = EpisodeSpec(
            purpose="evaluation",
            stage="evaluation",
            group_id=attempt.group_id,
            slot=attempt.sample,
            attempt=attempt.attempt,
            task=attempt.task,
            reset_seed=evaluation_reset_seed(sha256, attempt.task.task_id),
            episode_seed=evaluation_episode_seed(sha256, attempt.task.task_id, attempt.sample),
            sampling=protocol.sampling,
            limits=limits,
            sandbox_profile=self.sandbox_profile,
            lineage=attempt.lineage,
            parent_trajectory_id=attempt.parent_trajectory_id,
        )
        async with self.places:
            return await self._run(spec, self.engine)

    async def score(self, trajectories: Sequence[Trajectory]) -> Sequence[ScoredTrajectory]:
        """Score the finished members of one group."""
        if not trajectories:
            return ()
        with self.book.doing("verifiers"):
            scores = await self.composition.score([submission_of(t, self.renderer) for t in trajectories])
        return tuple(
            ScoredTrajectory(
                trajectory=trajectory,
                verdicts=score.verdicts,
                outcome=score.outcome,
                reward_rule=score.reward_rule,
                reward_components=score.reward_components,
                verifying_s=score.verifying_s,
            )
            for trajectory, score in zip(trajectories, scores, strict=True)
        )

    def _spec(self, attempt: Attempt) -> EpisodeSpec:
        seed = self.recipe.run.seed
        return EpisodeSpec(
            purpose=attempt.purpose,
            stage=attempt.stage,
            group_id=attempt.group_id,
            slot=attempt.slot,
            attempt=attempt.attempt,
            task=attempt.task,
            reset_seed=reset_seed(seed, attempt.purpose, attempt.group_id),
            episode_seed=episode_seed(seed, attempt.purpose, attempt.group_id, attempt.slot),
            sampling=sampling_of(self.recipe),
            limits=limits_of(self.recipe),
            sandbox_profile=self.sandbox_profile,
            lineage=attempt.lineage,
            parent_trajectory_id=attempt.parent_trajectory_id,
        )

    async def _run(self, spec: EpisodeSpec, engine: Engine) -> Trajectory:
        return await run_episode(
            spec,
            engines=self._engines(engine),
            environment=MeteredEnvironment(self.environment, self.book),
            renderer=self.renderer,
            clock=self.clock,
        )

    def _engines(self, engine: Engine) -> Mapping[str, Engine]:
        return dict.fromkeys(self.environment.actors.values(), engine)


def sampling_of(recipe: RecipeConfig) -> Sampling:
    """How training episodes are drawn."""
    rollout = recipe.rollout
    return Sampling(temperature=rollout.temperature, top_p=rollout.top_p, top_k=rollout.top_k, min_p=rollout.min_p)


def limits_of(recipe: RecipeConfig) -> Limits:
    """Where training episodes are cut."""
    rollout = recipe.rollout
    return Limits(
        turns=rollout.max_turns,
        turn_tokens=rollout.max_turn_tokens,
        episode_tokens=rollout.max_episode_tokens,
        context_tokens=recipe.engine.max_context_tokens,
        calls=rollout.max_calls,
        call_s=rollout.call_s,
        call_order=rollout.call_order,
        wall_clock_s=rollout.wall_clock_s,
        clock="failure" if recipe.engine.is_deterministic else "limit",
    )
