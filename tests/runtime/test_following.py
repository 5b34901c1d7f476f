"""What an objective carries from step to step: taken in once a step, saved with it, and restored."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from rollwright.algorithms import TokenMean, punish_truncated, score_function
from rollwright.algorithms.controllers import controllers_of
from rollwright.algorithms.credit.running_baseline import RunningBaseline
from rollwright.algorithms.regularizers.annealing import LinearAnneal
from rollwright.algorithms.regularizers.entropy_bonus import entropy_regularizer
from rollwright.runtime.checkpoints import read_progress
from rollwright.runtime.errors import RunStoppedError
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.loop import Loop
from rollwright.runtime.parts import GroupCounter
from rollwright.runtime.weights import WeightChannel, WeightShelf
from tests.runtime.fakes import noon
from tests.runtime.loops import StillLearner, end, make_world, rl, warm_start


@pytest.fixture
def world(tmp_path):
    made = make_world(tmp_path / "run")
    yield made
    end(made)


def with_memory(stage):
    """The stage with a running baseline inside a stage of credit, and a controlled entropy bonus."""
    credit = partial(punish_truncated, credit=RunningBaseline(decay=0.5))
    objective = score_function("running", credit=credit, weights=TokenMean())
    anneal = LinearAnneal(start=1.0, end=0.0, over=4)
    return replace(stage, objective=replace(objective, regularizers=(entropy_regularizer(anneal),)))


def run(world, stages, start=None):
    return asyncio.run(asyncio.wait_for(Loop(world.parts(stages), start).run(), 60))


def saved(world, step):
    return next(read_progress(c) for c in world.folder.checkpoints() if c.step == step).controllers


def resumed(world):
    """The same folder with parts as a new process would make them, and where it stands."""
    progress = read_progress(world.folder.newest_checkpoint().chosen)
    world.learner.on_train = lambda trained: None
    channel = WeightChannel(world.learner, world.engine, WeightShelf(), world.thread)
    fresh = replace(
        world,
        counter=GroupCounter(progress.next_group),
        ledger=Ledger(noon, progress.balance),
        channel=channel,
        shutdown=type(world.shutdown)(world.listener.warned),
    )
    return fresh, progress


def test_a_memory_takes_each_step_in_once_and_its_state_is_saved_behind_the_controllers(world):
    run(world, [with_memory(rl(world, steps=2))])
    assert saved(world, 0) == ()
    controller, memory = saved(world, 1)
    # The rewards of a step are 0 and 1 by slot: 0 → 0 → 0.5, and again.
    assert controller == {"updates": 0.0} and list(memory.values()) == [0.5]
    assert list(saved(world, 2)[1].values()) == [0.625]


def test_a_resumed_run_goes_on_with_what_was_carried(world, tmp_path):
    whole = make_world(tmp_path / "whole")
    run(whole, [with_memory(rl(whole, steps=4))])

    def ask(trained):
        if trained == 2:
            world.shutdown.request(lambda: None)

    world.learner.on_train = ask
    stage = with_memory(rl(world, steps=4))
    # The learner of these tests moves no controller; one that was moved is saved as it stands.
    for controller in controllers_of(stage.objective).values():
        controller.observe({})
    with pytest.raises(RunStoppedError):
        run(world, [stage])
    again, progress = resumed(world)
    run(again, [with_memory(rl(again, steps=4))], start=progress)
    assert saved(again, 4)[0] == {"updates": 1.0}
    assert saved(again, 4)[1] == saved(whole, 4)[1]
    end(whole)


def test_the_next_stage_begins_with_nothing_carried(world):
    run(world, [warm_start(world, steps=2), with_memory(rl(world, steps=1))])
    assert saved(world, 2) == () and len(saved(world, 3)) == 2


class MovingLearner(StillLearner):
    """Moves no weight, and lets the objective's controllers observe each update."""

    def train(self, batch, objective, *, first_update):
        done = super().train(batch, objective, first_update=first_update)
        for controller in controllers_of(objective).values():
            controller.observe({})
        return done


def raised(inputs, *, credit, coefficient):
    """Every reward more by the coefficient: a stage whose effect a controller moves."""
    return credit(replace(inputs, rewards=inputs.rewards + coefficient.value()))


def test_a_memory_takes_in_what_the_credit_saw_also_where_the_update_moves_a_coefficient(world):
    moving = replace(world, learner=MovingLearner(world.log, world.folder))
    moving = replace(moving, channel=WeightChannel(moving.learner, world.engine, WeightShelf(), world.thread))
    anneal = LinearAnneal(start=1.0, end=0.0, over=4)
    credit = partial(raised, credit=RunningBaseline(decay=0.5), coefficient=anneal)
    stage = replace(rl(moving, steps=1), objective=score_function("raised", credit=credit, weights=TokenMean()))
    run(moving, [stage])
    assert anneal.value() == 0.75, "the update has moved it"
    # Rewards 0 and 1, each more by the 1.0 that stood when credit was made: 0 -> 0.5 -> 1.25.
    assert list(saved(moving, 1)[1].values()) == [1.25]
