"""The protocols of a recipe, with what judges and reads their episodes, and what they are compared with."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from rollwright.evaluation import Baseline, Evaluation, EvaluationProtocol, outcomes_of
from rollwright.evidence import RunFolder, note_protocol, stored_evaluations
from rollwright.recipes.build.verifiers import BuiltVerifiers
from rollwright.recipes.build.world import BuiltWorld
from rollwright.recipes.config.evaluation import ProtocolConfig
from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.record import Sampling, ScoredTrajectory, Task, Trajectory
from rollwright.rendering import Renderer
from rollwright.rollout import submission_of
from rollwright.verifiers import AnswerRule, canonical_answer

__all__ = ["Baselines", "answer_reader", "build_protocols", "joined", "note_protocols", "with_gold"]

_Score = Callable[[Sequence[Trajectory]], Awaitable[Sequence[ScoredTrajectory]]]


def build_protocols(recipe: RecipeConfig, world: BuiltWorld, rendering_revision: str) -> tuple[EvaluationProtocol, ...]:
    """The protocols of a run: its own first, then those beside it.

    Args:
        recipe: their numbers.
        world: its tasks, environment and verifiers.
        rendering_revision: digest of tokenizer, template and tool schemas.

    Raises:
        RecipeError: where one pins what is not here, or its gold verifier is one that pays.
    """
    configs = (recipe.evaluation, *recipe.evaluation.also)
    return tuple(
        _protocol(config, recipe, world, (gold, rendering_revision))
        for config, gold in zip(configs, world.golds, strict=True)
    )


def _protocol(
    config: ProtocolConfig, recipe: RecipeConfig, world: BuiltWorld, pinned: tuple[BuiltVerifiers | None, str]
) -> EvaluationProtocol:
    gold, rendering_revision = pinned
    rollout = recipe.rollout
    judge = None if gold is None else gold.composition.parts[0].verifier
    protocol = EvaluationProtocol(
        name=config.name,
        tasks=_tasks(config, world),
        samples=config.samples,
        sampling=Sampling(temperature=config.temperature, top_p=config.top_p, top_k=config.top_k, min_p=config.min_p),
        max_turns=config.max_turns or rollout.max_turns,
        max_turn_tokens=config.max_turn_tokens or rollout.max_turn_tokens,
        max_episode_tokens=config.max_episode_tokens or rollout.max_episode_tokens,
        environment_revision=world.environment.revision,
        reward_rule=world.verifiers.composition.revision,
        rendering_revision=rendering_revision,
        success_threshold=(
            recipe.verifier.success_threshold if config.success_threshold is None else config.success_threshold
        ),
        level=config.level,
        seed=config.seed,
        split=config.split,
        attempts=config.attempts,
        cover_rates=config.cover_rates,
        gold="" if judge is None else judge.revision,
        gold_verifier="" if judge is None else judge.name,
    )
    _hold_to_pins(config, protocol)
    _refuse_gold_that_pays(protocol, world)
    return protocol


def _tasks(config: ProtocolConfig, world: BuiltWorld) -> tuple[Task, ...]:
    if config.split == "held_out":
        return world.mixture.hold_out(config.tasks, seed=config.seed).tasks
    return world.mixture.trained(config.tasks, seed=config.seed)


def _hold_to_pins(config: ProtocolConfig, protocol: EvaluationProtocol) -> None:
    pins = (
        ("environment_revision", config.environment_revision, protocol.environment_revision),
        ("reward_rule", config.reward_rule, protocol.reward_rule),
        ("rendering_revision", config.rendering_revision, protocol.rendering_revision),
        ("sha256", config.sha256, protocol.sha256),
    )
    wrong = [f"{name} is {here} and not {pin}" for name, pin, here in pins if pin is not None and pin != here]
    if wrong:
        raise RecipeError(
            f"protocol {config.name} is pinned to something else than what is here: {'; '.join(wrong)}. Its numbers "
            "would not compare with those it was written for: put that back, or take the pin out for a new protocol."
        )


def _refuse_gold_that_pays(protocol: EvaluationProtocol, world: BuiltWorld) -> None:
    paying = [part.verifier.name for part in world.verifiers.composition.parts]
    if protocol.gold_verifier in paying:
        raise RecipeError(
            f"protocol {protocol.name} names {protocol.gold_verifier} as gold, which is among the verifiers of the "
            f"reward ({', '.join(paying)}): it would agree with itself. Name another one, or leave gold out."
        )


def with_gold(score: _Score, gold: BuiltVerifiers | None, renderer: Renderer) -> _Score:
    """Score as before, and let the gold verifier see the same episodes; its verdict stands beside the others.

    Args:
        score: gives the rewards.
        gold: None scores as before.
        renderer: gives the text of episodes.
    """
    if gold is None:
        return score
    composition = gold.composition

    async def both(trajectories: Sequence[Trajectory]) -> Sequence[ScoredTrajectory]:
        scored = await score(trajectories)
        if not scored:
            return scored
        second = await composition.score([submission_of(t, renderer) for t in trajectories])
        return [
            replace(one, verdicts=(*one.verdicts, *also.verdicts), verifying_s=one.verifying_s + also.verifying_s)
            for one, also in zip(scored, second, strict=True)
        ]

    return both


def answer_reader(recipe: RecipeConfig, renderer: Renderer) -> Callable[[Trajectory], str | None]:
    """Reads the canonical answer of an episode, where the recipe's verifiers would look for it."""
    rule = AnswerRule(form=recipe.verifier.answer_form, marker=recipe.verifier.answer_marker)

    def read(trajectory: Trajectory) -> str | None:
        return canonical_answer(submission_of(trajectory, renderer), rule)

    return read


class Baselines:
    """The checkpoint that later ones are compared with: the start of the last stage, under each protocol."""

    def __init__(self, recipe: RecipeConfig, folder: RunFolder) -> None:
        """Read what the run has evaluated so far."""
        before = recipe.stages[:-1]
        self.step = sum(s.steps if isinstance(s, SupervisedStageConfig) else recipe.run.steps for s in before)
        self._counts: dict[str, dict[str, tuple[int, int]]] = {}
        for stored in stored_evaluations(folder):
            if stored.step == self.step:
                self._counts[stored.protocol_sha256] = stored.counts

    def note(self, protocol: EvaluationProtocol, evaluation: Evaluation, step: int) -> None:
        """Remember an evaluation, where it is of the start of the last stage."""
        if step == self.step:
            self._counts[protocol.sha256] = outcomes_of(protocol, evaluation.trajectories).counts

    def of(self, protocol: EvaluationProtocol, step: int) -> Baseline | None:
        """What a later step is compared with; None for the start itself, and where it was not evaluated."""
        counts = self._counts.get(protocol.sha256)
        return Baseline(step=self.step, counts=counts) if counts and step > self.step else None


def joined(parts: Sequence[Evaluation]) -> Evaluation:
    """Several evaluations of one step as one: the first gives the numbers that are shown, all give rows."""
    return replace(
        parts[0],
        rows=tuple(row for part in parts for row in part.rows),
        trajectories=tuple(member for part in parts for member in part.trajectories),
    )


def note_protocols(folder: RunFolder, protocols: Sequence[EvaluationProtocol]) -> None:
    """Write down once what each digest is made of, so that a reader can say why two do not compare."""
    for protocol in protocols:
        note_protocol(folder, name=protocol.name, sha256=protocol.sha256, facts=protocol.facts)
