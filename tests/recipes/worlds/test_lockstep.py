"""Several kinds of agents in one environment, in lock-step."""

import asyncio
import json

import pytest

from rollwright.environments import (
    LOCKSTEP,
    DemonstratedTurn,
    DemonstratingEnvironment,
    EnvironmentSetupError,
    LockstepEnvironment,
    Seat,
    scripted_seat,
)
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds import load_world
from rollwright.record import NotSnapshottableError
from tests.recipes.worlds.episodes import commanded, play, score, tasks_of


def went(world, task, turns, *, seed: int = 3):
    return json.loads(asyncio.run(play(world, task, turns, seed=seed)).artifacts[LOCKSTEP])


def of_person(tmp_path, lines) -> dict:
    file = tmp_path / "person.txt"
    file.write_text("\n".join(lines), encoding="utf-8")
    return {"transcript": str(file)}


@pytest.mark.row("S467")
def test_a_policy_a_script_and_a_person_get_identical_seeds_and_observations_for_identical_turns(tmp_path):
    task = tasks_of(load_world("text_world", {}))[0]
    plan = [turn.text for turn in load_world("text_world", {}).reference(task, 3)]
    world = load_world("lockstep", {"seats": "reference,person,looks around", **of_person(tmp_path, plan)})
    found = went(world, task, commanded(*plan))
    assert {name: one["kind"] for name, one in found.items()} == {
        "agent": "policy", "reference": "script", "person": "person", "looks around": "script",
    }  # fmt: skip
    assert {one["seed"] for one in found.values()} == {3}
    same = [found[name] for name in ("agent", "reference", "person")]
    assert all(one["turns"] == same[0]["turns"] and one["artifacts"] == same[0]["artifacts"] for one in same)
    assert len(same[0]["turns"]) == len(plan) > 2
    assert {one["end"] for one in same} == {"environment_success"}


@pytest.mark.row("S467")
def test_agents_that_act_differently_see_the_same_first_and_only_what_they_did_after_it(tmp_path):
    task = tasks_of(load_world("text_world", {}))[0]
    world = load_world("lockstep", {"seats": "reference,silent,person", **of_person(tmp_path, ["look"] * 3)})
    found = went(world, task, commanded("look"))
    first = {json.dumps([one["turns"][0]["seen"], one["turns"][0]["state_hash"]]) for one in found.values()}
    assert len(first) == 1
    assert found["reference"]["turns"][1]["state_hash"] != found["silent"]["turns"][1]["state_hash"]
    lengths = [len(one["turns"]) for name, one in found.items() if name != "reference"]
    assert len(set(lengths)) == 1, "nobody is a turn ahead of another"


def test_a_seat_is_asked_turn_by_turn_with_all_that_it_has_seen():
    inner = load_world("text_world", {})
    task, asked = tasks_of(inner)[0], []

    async def answer(task, seed, seen):
        asked.append((seed, len(seen)))
        return DemonstratedTurn(text="look")

    environment = LockstepEnvironment(inner.environment, [Seat(name="model", kind="model", answer=answer)])

    async def scenario():
        async with environment.open(task, seed=5) as episode:
            await episode.begin()
            from rollwright.record import Action

            for turn in range(3):
                await episode.step(Action(actor="agent", turn=turn, text="look", calls=()))
            with pytest.raises(NotSnapshottableError):
                await episode.snapshot()

    asyncio.run(scenario())
    assert asked == [(5, 1), (5, 2), (5, 3)]


def test_the_policys_own_copy_is_judged_and_its_tools_are_its_own():
    world = load_world("lockstep", {"world": "workplace", "arguments": "size=tiny", "seats": "reference,claim"})
    task = tasks_of(world)[0]
    assert score(world, task, world.reference(task, 3)).outcome == 1.0
    assert score(world, task, world.attacks["claim"](task, 3)).outcome == 0.0
    assert isinstance(world.environment, DemonstratingEnvironment)
    assert world.environment.demonstrate(task, 1)
    found = went(world, task, world.reference(task, 3))
    assert found["agent"]["turns"][0]["said"] == found["reference"]["turns"][0]["said"]


def test_what_cannot_be_seated_is_refused():
    inner = load_world("text_world", {})
    with pytest.raises(RecipeError, match="there are reference, silent"):
        load_world("lockstep", {"seats": "nobody"})
    with pytest.raises(RecipeError, match="cannot be read"):
        load_world("lockstep", {"seats": "person", "transcript": "none.txt"})
    with pytest.raises(EnvironmentSetupError, match="seats of other names"):
        LockstepEnvironment(inner.environment, [scripted_seat("agent", inner.reference)])
