"""Worlds of commands: who solves is paid, who does not is not, and states are the same exactly where they are."""

import asyncio
from functools import cache
from random import Random
from typing import Any

import pytest

from rollwright.environments import GamePlanner, GridGame, HouseGame, RepairGame
from rollwright.recipes.worlds import load_world, null_agent
from rollwright.record import Action, EnvironmentBrokenError
from rollwright.tasks import Difference, conflict_of, payload_of
from tests.recipes.worlds.episodes import commanded, info_of, play, score, seen, tasks_of

WORLDS = {
    "text_world": {},
    "web_site": {},
    "repair": {},
    "network": {},
    "lake": {"kind": "lake"},
    "boxes": {"kind": "boxes"},
    "search": {"people": 20},
    "search in tags": {"people": 20, "form": "tags"},
    "rule_induction": {},
}
GAMES = ("text_world", "web_site", "repair", "network", "lake", "boxes")


@cache
def world_of(name: str) -> Any:
    kind = {"lake": "grid", "boxes": "grid", "search in tags": "search"}.get(name) or name
    return load_world(kind, WORLDS[name])


@pytest.mark.parametrize("name", WORLDS)
def test_the_reference_is_paid_and_neither_silence_nor_an_attack_is(name):
    world = world_of(name)
    agents = {"null agent": null_agent, **world.attacks}
    for task in tasks_of(world, 5):
        assert score(world, task, world.reference(task, 0)).outcome >= world.success_threshold
        for agent in agents.values():
            paid = score(world, task, agent(task, 0)).outcome
            assert isinstance(paid, float)
            assert paid < world.success_threshold


@pytest.mark.parametrize("name", GAMES)
def test_equal_commands_show_equal_texts_and_hashes_whatever_the_seed(name):
    world = world_of(name)
    for task in tasks_of(world, 3):
        turns = world.environment.demonstrate(task, 5)[:-1]
        assert seen(world, task, turns, seed=1) == seen(world, task, turns, seed=2)


@pytest.mark.parametrize("name", GAMES)
def test_an_episode_goes_on_from_its_snapshot_and_refuses_that_of_another(name):
    world = world_of(name)
    one, two = tasks_of(world, 2)[:2]

    async def scenario():
        async with world.environment.open(one, seed=3) as episode:
            before = await episode.begin()
            saved = await episode.snapshot()
        async with world.environment.open(one, seed=3, snapshot=saved) as episode:
            assert (await episode.begin()).observations[0].state_hash == before.observations[0].state_hash
            assert await episode.snapshot() == saved
        for task, seed, snapshot in ((two, 3, saved), (one, 4, saved), (one, 3, b"{}")):
            with pytest.raises(EnvironmentBrokenError, match="snapshot does not fit"):
                async with world.environment.open(task, seed=seed, snapshot=snapshot):
                    pass

    asyncio.run(scenario())


def states_of(game, task, turns):
    """The states on a way, as far as its commands can be done."""
    payload = payload_of(task)
    states = [game.begin(payload)]
    for turn in turns:
        if turn.text not in game.commands(payload, states[-1]) or game.end(payload, states[-1]) is not None:
            break
        states.append(game.act(payload, states[-1], turn.text))
    return states


def states_along_walks(game, task, *, walks=24, steps=10):
    """(state, hash) of many random walks through one task, by way of the environment."""
    payload, found, world = payload_of(task), [], load_world("text_world", {"max_turns": 20})
    for walk in range(walks):
        chance, state, turns, states = Random(walk), game.begin(payload), [], [game.begin(payload)]
        for _ in range(steps):
            command = chance.choice([*game.commands(payload, state), "look", "fly"])
            state = state if command in ("look", "fly") else game.act(payload, state, command)
            if game.end(payload, state) is not None:
                break
            turns.append(command)
            states.append(state)
        hashes = [key for _, key in seen(world, task, commanded(*turns))]
        found += zip((tuple(sorted(s.items())) for s in states), hashes, strict=True)
    return found


def test_states_reached_by_different_paths_have_one_hash_and_different_states_have_two():
    (task, *_) = tasks_of(world_of("text_world"), 1)
    walked = states_along_walks(HouseGame(), task)
    by_state, by_hash = {}, {}
    for state, key in walked:
        assert by_state.setdefault(state, key) == key
        assert by_hash.setdefault(key, state) == state
    assert len(by_state) > 10
    assert len(walked) > 2 * len(by_state)


def test_equal_states_of_different_houses_differ():
    world = world_of("text_world")
    keys = {seen(world, task, ())[0][1] for task in tasks_of(world, 30)}
    assert len(keys) == 30


def test_an_invalid_command_is_answered_counted_and_costs_what_was_said():
    world = load_world("text_world", {"max_turns": 3, "invalid_reward": -0.1})
    (task, *_) = tasks_of(world, 1)
    (_, first), (said, second) = seen(world, task, commanded("dance"))
    assert said.startswith("nothing happens\n")
    assert first == second
    scored = score(world, task, commanded("dance", "look", "go\nlook"))
    assert {c.name: c.value for c in scored.verdicts[0].components} == {"turns": 3.0, "invalid": 2.0}

    async def scenario():
        async with world.environment.open(task, seed=0) as episode:
            await episode.begin()
            step = await episode.step(Action(actor="agent", turn=0, text="dance", calls=()))
            assert [(r.name, r.value) for r in step.rewards] == [("invalid_command", -0.1)]
            assert (await episode.step(Action(actor="agent", turn=1, text="look", calls=()))).rewards == ()

    asyncio.run(scenario())


def test_what_is_in_a_shut_container_is_not_seen_and_not_listed():
    world = world_of("text_world")
    hidden = [
        (task, info_of(task)["start"])
        for task in tasks_of(world, 40)
        if info_of(task)["start"].get(info_of(task)["start"][next(iter(info_of(task)["goal"]))]) == "shut"
    ]
    assert hidden
    for task, _ in hidden:
        thing = next(iter(info_of(task)["goal"]))
        first = seen(world, task, ())[0][0].split("\n", 2)[2]
        assert thing not in first


def test_a_walk_is_a_shortest_way_where_every_command_is_planned():
    world: Any = load_world("text_world", {"planned_share": 1.0})
    planner = GamePlanner(HouseGame())
    for task in tasks_of(world, 10):
        turns = world.environment.demonstrate(task, 1)
        assert tuple(turn.text for turn in turns) == planner.plan(task)


@pytest.mark.row("S458")
@pytest.mark.parametrize("name", ["lake", "boxes"])
def test_grids_replay_exactly_and_their_anchor_states_recur(name):
    world = world_of(name)
    back = {"up": "down", "down": "up", "left": "right", "right": "left"}
    recurred = 0
    for task in tasks_of(world, 6):
        for move, other in back.items():
            start, *rest = states_of(GridGame(), task, commanded(move, other))
            if len(rest) == 2 and rest[1] == start:  # Back where it was, and no box has moved.
                keys = [key for _, key in seen(world, task, commanded(move, other))]
                assert keys[0] == keys[2] != keys[1]
                recurred += 1
    assert recurred > 3
    assert tasks_of(world) == tasks_of(load_world("grid", WORLDS[name]))


@pytest.mark.row("S453")
def test_the_site_answers_searches_and_clicks_and_grades_what_was_bought():
    world = world_of("web_site")
    for task in tasks_of(world, 6):
        way = world.reference(task, 0)
        assert way[0].text.startswith("search[")
        assert way[-1].text == "click[buy]"
        texts = [text for text, _ in seen(world, task, way[:-1])]
        assert "home page" in texts[0]
        assert texts[1].startswith("results for")
        goal = info_of(task)["goal"]
        wrong = [turn for turn in way if turn.text != f"click[{goal['color']}]"]
        bought = score(world, task, wrong)
        assert bought.outcome == 0.0
        assert "color is ''" in bought.verdicts[0].evidence


@pytest.mark.row("S461")
def test_returns_of_the_network_are_never_positive_and_idling_is_no_way_out():
    world = world_of("network")
    for task in tasks_of(world, 6):
        returns: dict[str, Any] = {
            agent: score(world, task, turns).outcome
            for agent, turns in (
                ("knowing", world.reference(task, 0)),
                ("waiting", commanded(*["wait"] * 8)),
                ("silent", ()),
                ("looking", commanded(*["look"] * 8)),
            )
        }
        assert returns["knowing"] == -6.0
        assert returns["waiting"] == returns["silent"] == returns["looking"] < -10
    (task, *_) = tasks_of(world, 1)
    hidden = seen(world, task, commanded("wait", "wait", "wait", "wait"))
    assert all("taken" not in text for text, _ in hidden)
    assert "taken: " in seen(world, task, commanded("wait", "wait", "wait", "wait", "scan"))[-1][0]


@pytest.mark.row("S463")
def test_every_repair_solves_again_and_pays_by_the_conflicts_before_and_after():
    world = world_of("repair")
    for task in tasks_of(world, 6):
        way = world.reference(task, 0)
        once, again = score(world, task, way), score(world, task, way)
        assert [v.outcome for v in once.verdicts] == [v.outcome for v in again.verdicts]
        first = info_of(task)["layout"]["constraints"]
        conflict = seen(world, task, ())[0][0].split("conflict: ")[1].split("\n")[0].split()
        assert once.verdicts[1].outcome == len(conflict)
        assert set(conflict) <= {row["name"] for row in first}
        for solved in states_of(RepairGame(), task, way):
            kept = [Difference(**row) for row in first if solved[row["name"]] == "kept"]
            assert solved["conflict"] == " ".join(conflict_of(kept))


def test_what_is_said_outside_of_commands_never_ends_an_episode():
    world = world_of("text_world")
    (task, *_) = tasks_of(world, 1)
    submission = asyncio.run(play(world, task, commanded("environment_success")))
    assert submission.terminal_reason == "environment_failure"
