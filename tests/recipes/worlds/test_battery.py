"""What every world that ships promises; a new one adds a row to `WORLDS`."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from rollwright.algorithms.composition import loss_terms
from rollwright.algorithms.presets import rloo
from rollwright.batches import BatchRules, cut, plan_step, plan_updates
from rollwright.engines import ScriptedEngine, replies_in_order
from rollwright.environments import DemonstratedTurn, LimitedEnvironment
from rollwright.learner.causal_learner import streams_of
from rollwright.learner.logprobs import TokenScores
from rollwright.recipes.worlds import WORLDS, World, load_world, null_agent
from rollwright.recipes.worlds.checking import CheckOrder
from rollwright.recipes.worlds.checking.bench import Bench
from rollwright.recipes.worlds.checking.session import run_checks
from rollwright.recipes.worlds.checking.stage import Stage
from rollwright.record import Engine, Group, Sampling, ScoredTrajectory, Task, Trajectory
from rollwright.rollout import EpisodeSpec, FixedClock, Leg, Limits, Parked, run_episode, run_leg, submission_of
from rollwright.tasks import SplitSizes
from rollwright.verifiers import Composition
from tests.rendering.tokenizers_for_tests import small_renderer
from tests.rollout.test_parking import by_position, told

LIMITS = Limits(turns=60, turn_tokens=20_000, episode_tokens=200_000, context_tokens=400_000)
POLICY = frozenset({("policy", "policy")})
_SILENT = 60
_UNTIL = {"repository": "verdicts"}
"""The last check that is made here, of worlds whose episodes take long; `rollwright env check` makes all of them."""
_MOST_ATTACKS = 2
"""Of a world, in this contract; each world's own tests play all of them."""


@pytest.fixture(scope="module")
def renderer(tmp_path_factory):
    return small_renderer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module", params=list(WORLDS))
def named(request) -> Iterator[tuple[str, World]]:
    world = load_world(request.param, {})
    yield request.param, world
    world.close()


def run(world: World, task: Task, turns: tuple[DemonstratedTurn, ...], renderer, slot: int) -> Trajectory:
    """An episode through the driver, its turns drawn by a scripted engine; silent ones follow."""
    written = [renderer.encode_turn(t.text, [(c.tool, c.arguments) for c in t.calls]).tolist() for t in turns]
    written += [renderer.encode_turn("").tolist()] * _SILENT
    engine = ScriptedEngine(replies_in_order(written), max_context_tokens=LIMITS.context_tokens)
    spec = replace(spec_of(world, task, LIMITS, 0), slot=slot)
    engines = dict.fromkeys(world.environment.actors.values(), engine)
    return asyncio.run(
        run_episode(spec, engines=engines, environment=world.environment, renderer=renderer, clock=FixedClock())
    )


def scored(world: World, trajectory: Trajectory, renderer) -> ScoredTrajectory:
    (score,) = asyncio.run(Composition(world.parts).score([submission_of(trajectory, renderer)]))
    return ScoredTrajectory(
        trajectory=trajectory,
        verdicts=score.verdicts,
        outcome=score.outcome,
        reward_rule=score.reward_rule,
        reward_components=score.reward_components,
        verifying_s=0.0,
    )


def test_a_world_keeps_the_contract(named, monkeypatch):
    name, world = named

    monkeypatch.setattr("rollwright.recipes.worlds.checking.building._SIZES", SplitSizes(train=24, held_out=12))
    few = replace(world, attacks=dict(islice(world.attacks.items(), _MOST_ATTACKS)))

    async def checks():
        order = CheckOrder(name=name, arguments={}, num_tasks=1, limit_s=20.0, most_bad_calls=10)
        bench = Bench(order=order, stage=Stage(limit_s=20.0, tell=lambda *_: None), make=lambda: few)
        found = []
        async for outcome in run_checks(bench, lambda check: None):
            found.append(outcome)
            if outcome.name == _UNTIL.get(name, "limits"):
                break  # what is left behind, throughput and closing: `rollwright env check`, in a process of its own
        return found

    outcomes = asyncio.run(checks())
    assert [f"{o.name}: {o.sentence}" for o in outcomes if o.status != "passed"] == []
    assert outcomes[-1].name == _UNTIL.get(name, "limits")


def test_a_world_declares_the_limits_of_its_own(named):
    _, world = named
    assert isinstance(world.environment, LimitedEnvironment)
    assert world.environment.limits


def test_through_the_driver_the_reference_is_paid_and_silence_is_not(named, renderer):
    _, world = named
    task = world.tasks(SplitSizes(train=4, held_out=2), 7)[0].train[0]
    solved = scored(world, run(world, task, world.reference(task, 7), renderer, 0), renderer)
    silent = scored(world, run(world, task, null_agent(task, 7), renderer, 1), renderer)
    assert solved.trajectory.terminal_reason.is_trainable, solved.trajectory.failure_cause
    assert solved.outcome >= world.success_threshold, solved.verdicts
    assert silent.outcome < world.success_threshold, silent.verdicts
    _assert_no_gradient_outside_the_policy(solved, silent)


def test_an_episode_of_a_world_that_limits_cut_goes_on_as_if_they_had_not(named, renderer):
    _, world = named
    task = world.tasks(SplitSizes(train=4, held_out=2), 7)[0].train[0]
    uncut = run(world, task, world.reference(task, 7), renderer, 0)
    for cut_by in ({"turns": max(1, uncut.num_turns // 2)}, {"episode_tokens": max(2, uncut.num_action_tokens // 2)}):
        legs, whole = resumed_in(world, task, replace(LIMITS, **cut_by), renderer, by_position(uncut, [0]))
        assert (len(legs) > 0) == (uncut.num_turns > 1 or "episode_tokens" in cut_by)
        assert whole.terminal_reason == uncut.terminal_reason, whole.failure_cause
        assert [(s.origin, s.token_ids.tolist(), s.state_hash, s.finish, s.turn) for s in whole.segments] == [
            (s.origin, s.token_ids.tolist(), s.state_hash, s.finish, s.turn) for s in uncut.segments
        ]
        assert whole.artifacts == uncut.artifacts
        # Calls with their answers, rewards of turns, and the state it began in.
        assert told(whole)[1:] == told(uncut)[1:]


def resumed_in(world: World, task: Task, limits: Limits, renderer, engine: Engine) -> tuple[list[Parked], Trajectory]:
    """An episode in as many legs as the limits need."""
    legs: list[Parked] = []
    while True:
        leg = Leg(spec=spec_of(world, task, limits, len(legs)), past=legs[-1] if legs else None, at_limit="park")
        engines = dict.fromkeys(world.environment.actors.values(), engine)
        ended = asyncio.run(
            run_leg(leg, engines=engines, environment=world.environment, renderer=renderer, clock=FixedClock())
        )
        if not isinstance(ended, Parked):
            return legs, ended
        legs.append(ended)
        assert len(legs) < 10


def spec_of(world: World, task: Task, limits: Limits, attempt: int) -> EpisodeSpec:
    return EpisodeSpec(
        purpose="train",
        stage="rl",
        group_id=0,
        slot=0,
        attempt=attempt,
        task=task,
        reset_seed=7,
        episode_seed=7,
        sampling=Sampling(),
        limits=limits,
        sandbox_profile=world.sandbox_profile,
    )


def _assert_no_gradient_outside_the_policy(*members: ScoredTrajectory) -> None:
    """The gradient of the loss by the logits of every token: exactly zero where the policy did not draw it."""
    objective = rloo()
    group = Group(group_id=0, task=members[0].trajectory.task, size=len(members), members=members)
    batch = plan_step([group], step=1, objective=objective, eligible=POLICY, rules=BatchRules(max_lag=0))
    (plan,) = plan_updates(batch, objective, first_update=1, num_minibatches=1)
    num_policy = num_others = 0
    for micro in cut(plan, token_budget=10**7):
        logits = torch.randn(len(micro.token_ids), 16, requires_grad=True)
        drawn = (micro.token_ids % 16).unsqueeze(1)
        current = torch.log_softmax(logits, 1).gather(1, drawn).squeeze(1)
        scores = TokenScores(logprobs=current, entropy=torch.zeros(len(drawn)))
        places = torch.arange(len(drawn))
        terms = loss_terms(objective, streams_of(micro, objective, places, scores), micro.token_weights)
        (gradient,) = torch.autograd.grad(terms.loss, logits)
        is_policy = torch.tensor(_origins(batch, micro.token_index.numpy()) == "policy")
        assert (gradient[~is_policy] == 0).all()
        assert (gradient[is_policy] != 0).any(1).all()
        num_policy += int(is_policy.sum())
        num_others += int((~is_policy).sum())
    assert num_policy > 0
    assert num_others > 0


def _origins(batch, index: np.ndarray) -> np.ndarray:
    """Of each of these places in the step's stream, who said it."""
    found = np.empty(len(batch.token_ids), dtype=object)
    for number, row in enumerate(batch.rows):
        start, end = batch.row_offsets[number : number + 2]
        segments = batch.members[row.member].trajectory.segments
        found[start:end] = [segments[s].origin for s in batch.segment_ids[start:end]]
    return found[index]
