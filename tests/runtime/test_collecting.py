"""Sampling without learning: what is recorded, which ids it has, and how it stops."""

import asyncio

import pytest

from rollwright.evidence import StoredRun
from rollwright.record import TerminalReason
from rollwright.runtime.collecting import collect_only
from rollwright.runtime.errors import RunStoppedError, RuntimeRunError
from tests.runtime.fakes import demonstrated, ended, episodes
from tests.runtime.loops import end, make_world, rl, warm_start


@pytest.fixture
def world(tmp_path):
    made = make_world(tmp_path / "run")
    yield made
    end(made)


def collect(world, stage, *, evaluation_groups=0):
    return asyncio.run(collect_only(world.parts([stage]), evaluation_groups=evaluation_groups))


def test_one_batch_of_an_rl_stage_is_recorded_and_nothing_is_trained(world):
    result = collect(world, rl(world, steps=5, slots=4))
    assert (result.steps, result.num_episodes, world.learner.updates) == (1, 4, 0)
    assert [c.step for c in world.folder.commits] == [0, 1]
    assert {r.state for r in StoredRun(world.folder.path).ledger} == {"in_flight", "ready"}


def test_all_demonstrations_are_recorded_beside_the_first_weights(world):
    result = collect(world, warm_start(world, steps=3))
    assert (result.steps, result.num_episodes) == (3, 6)
    assert [c.name for c in world.folder.checkpoints()] == ["step-000000"]
    assert [e for e in world.log if e[0] == "publish"] == []


def test_every_call_of_the_learner_runs_in_its_own_thread(world):
    collect(world, rl(world, steps=1))
    assert {name.split("_")[0] for name in world.learner.threads} == {"learner"}


def test_the_ids_of_the_evaluation_that_training_begins_with_stay_free(world):
    collect(world, rl(world, steps=1, slots=4), evaluation_groups=10)
    assert {r.group_id for r in StoredRun(world.folder.path).ledger} == {10, 11}


def test_a_request_to_stop_ends_after_a_recorded_batch(world):
    def play(attempt):
        if attempt.group_id == 2:
            world.shutdown.request(lambda: None)
        return demonstrated(attempt)

    with pytest.raises(RunStoppedError, match="stopped after batch 2"):
        collect(world, warm_start(world, steps=3, run_episode=episodes(play)))
    assert [c.step for c in world.folder.commits] == [0, 1, 2]


def test_a_request_in_the_last_batch_finds_it_finished(world):
    def play(attempt):
        world.shutdown.request(lambda: None)
        return demonstrated(attempt)

    assert collect(world, warm_start(world, steps=1, run_episode=episodes(play))).steps == 1


def test_what_goes_wrong_is_the_sentence_itself(world):
    def play(attempt):
        return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="no tool")

    with pytest.raises(RuntimeRunError, match="infrastructure_failure: no tool"):
        collect(world, warm_start(world, steps=3, run_episode=episodes(play)))
