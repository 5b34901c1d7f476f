"""The office desk and the bank's counter as worlds: the reference earns everything, nobody else anything."""

import asyncio
import json

import pytest

from rollwright.environments import DemonstratingEnvironment
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds import load_world, null_agent
from rollwright.record import Action, Passage, Submission
from rollwright.tasks import SplitSizes, payload_of
from rollwright.verifiers import Composition

WORLDS = {
    "workplace": ("workplace", {}),
    "workplace-tiny": ("workplace", {"size": "tiny"}),
    "dialogue": ("dialogue", {}),
}


@pytest.fixture(params=list(WORLDS.values()), ids=list(WORLDS))
def world(request):
    return load_world(*request.param)


async def reward_of(world, task, agent):
    passages = []
    async with world.environment.open(task, seed=3) as episode:
        result = await episode.begin()
        for number, turn in enumerate(agent(task, 3)):
            assert result.observations, "the agent speaks after the episode has ended"
            passages.append(Passage(actor="agent", kind="policy", text=turn.text))
            results = tuple([await episode.call(request) for request in turn.calls])
            result = await episode.step(Action(actor="agent", turn=number, text=turn.text, calls=results))
            passages += [Passage(actor="agent", kind="tool", text=one.text) for one in results]
            for observation in result.observations:
                passages += [Passage(actor="agent", kind="user", text=m.text) for m in observation.messages]
        assert not result.observations, "the episode goes on after the agent's last turn"
        artifacts = await episode.artifacts()
    submission = Submission(
        trajectory_id="t", task=task, terminal_reason="model_end", passages=tuple(passages), artifacts=artifacts
    )
    (score,) = await Composition(world.parts).score([submission])
    assert isinstance(score.outcome, float), score.verdicts
    return score.outcome


def shown(world):
    assert isinstance(world.environment, DemonstratingEnvironment)
    return world.environment.demonstrate


def some_tasks(world, count=6):
    return [task for stratum in world.tasks(SplitSizes(train=80, held_out=20), 7) for task in stratum.train[:count]]


@pytest.mark.row("S455", "S456")
def test_the_reference_solves_every_task_and_the_null_agent_and_attacks_none(world):
    async def scenario():
        agents = {"null": null_agent, **world.attacks}
        for task in some_tasks(world):
            assert await reward_of(world, task, world.reference) == 1.0, task.payload
            paid = [name for name, agent in agents.items() if await reward_of(world, task, agent) > 0]
            assert paid == [], task.payload

    asyncio.run(scenario())


def test_equal_seeds_give_equal_tasks_and_questions_stay_on_their_side(world):
    sizes = SplitSizes(train=60, held_out=20)
    one, two = world.tasks(sizes, 1), world.tasks(sizes, 1)
    assert one == two != world.tasks(sizes, 2)
    trained = {payload_of(task).messages for stratum in one for task in stratum.train}
    assert not trained & {payload_of(task).messages for stratum in one for task in stratum.held_out}


def test_demonstrations_run_to_their_end_and_some_of_them_fail(world):
    async def scenario():
        return [await reward_of(world, task, shown(world)) for task in some_tasks(world)]

    rewards = asyncio.run(scenario())
    assert 0 < sum(rewards) < len(rewards)


@pytest.mark.row("S455")
def test_the_whole_office_has_several_databases_and_every_family_of_requests():
    tasks = [t for s in load_world("workplace", {}).tasks(SplitSizes(train=200, held_out=10), 0) for t in s.train]
    sections = {name.split(".")[0] for name in json.loads(tasks[0].payload)["info"]["initial"]}
    assert sections == {"sales", "support", "calendar", "stock", "desk"}
    assert len({payload_of(task).text("family") for task in tasks}) == 20
    assert {payload_of(task).text("slice") for task in tasks} == {"one_call", "look_up", "conditional", "refuse"}


@pytest.mark.row("S456")
def test_a_customer_who_changes_their_mind_is_served_by_asking_and_not_by_haste():
    world = load_world("dialogue", {"slices": "changed_mind", "careful_share": 0.0})
    tasks = world.tasks(SplitSizes(train=5, held_out=0), 0)[0].train

    async def scenario():
        for task in tasks:
            assert await reward_of(world, task, shown(world)) == 0.0
            assert await reward_of(world, task, world.reference) == 1.0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("workplace", {"size": "huge"}),
        ("workplace", {"one_call": 0.0, "look_up": 0.0, "conditional": 0.0, "refuse": 0.0}),
        ("workplace", {"right_share": 2.0}),
        ("dialogue", {"slices": "plain,rude"}),
        ("dialogue", {"slices": ""}),
    ],
)
def test_arguments_that_mean_nothing_are_refused_when_the_world_is_made(name, arguments):
    with pytest.raises(RecipeError):
        load_world(name, arguments)
