"""Jobs for a shell: they begin from the same files, run within limits, and are judged by what is left."""

import asyncio
import json

import pytest

from rollwright.recipes.worlds import null_agent
from rollwright.recipes.worlds.terminal import load
from rollwright.tasks import SplitSizes, TaskError, shell_job_of
from rollwright.verifiers import Composition
from tests.environments.played import play, said, turn


@pytest.fixture(scope="module")
def world():
    world = load()
    yield world
    world.close()


@pytest.fixture(scope="module")
def hurried():
    """The same world with little time for a call."""
    world = load(call_s=1.5, num_warm=0)
    yield world.environment
    world.close()


@pytest.fixture(scope="module")
def tasks(world):
    return [task for stratum in world.tasks(SplitSizes(train=8, held_out=0), 0) for task in stratum.train]


def reward(world, played):
    (score,) = asyncio.run(Composition(world.parts).score([played.submission]))
    return score.outcome


@pytest.mark.row("S447")
def test_a_job_is_run_begun_anew_cut_in_time_and_graded_by_what_is_left(world, hurried, tasks, renderer):
    for task in tasks[::4]:
        job = shell_job_of(task)
        spoiled = play(renderer, hurried, task, [turn("shell", command="rm -r *; sleep 60"), said("Done.")])
        assert spoiled.results[0][0] == "timeout"
        assert json.loads(spoiled.submission.artifacts["tree.json"])["files"] == {}
        assert reward(world, spoiled) == 0.0
        anew = play(renderer, world.environment, task, [turn("shell", command="true"), said("Done.")])
        assert json.loads(anew.submission.artifacts["tree.json"])["files"] == job.files
        done = play(renderer, world.environment, task, world.reference(task, 0))
        assert json.loads(done.submission.artifacts["tree.json"])["files"] == job.end
        assert reward(world, done) == 1.0


def test_the_null_agent_and_every_attack_earn_nothing(world, tasks, renderer):
    for number, (name, agent) in enumerate({"null": null_agent, **world.attacks}.items()):
        task = tasks[number % len(tasks)]
        assert reward(world, play(renderer, world.environment, task, agent(task, 0))) == 0.0, name


def test_a_task_of_another_kind_holds_no_job(tasks):
    other = tasks[0].__class__(
        task_id="t/1", source="t", revision="1", split="train", payload='{"answer":"1","info":{},"question":"q?"}'
    )
    with pytest.raises(TaskError, match="holds no shell job"):
        shell_job_of(other)
