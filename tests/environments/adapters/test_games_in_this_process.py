"""Other people's environments in this process: textarena, `init` and `step` of text, classes of TRL."""

import asyncio
import json
import random
from pathlib import Path

import pytest

from rollwright.environments import EnvironmentSetupError
from rollwright.environments.adapters import AdaptedEnvironment, Departure, GameLimits, Move, TrlClass
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds import World, load_world
from rollwright.record import EnvironmentBrokenError, Message, NotSnapshottableError, Task
from rollwright.tasks import SplitSizes
from tests.environments.adapters.playing import play, submission
from tests.environments.foreign.classes import Counter, Silent, Untyped

CLASSES = "tests.environments.foreign.classes"
HANOI = ("[A C]", "[A B]", "[C B]", "[A C]", "[B A]", "[B C]", "[A C]")


def first(world: World) -> Task:
    (stratum,) = world.tasks(SplitSizes(train=2, held_out=0), 0)
    return stratum.train[0]


def rows(folder: Path, *given: dict) -> str:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in given))
    return str(path)


def judged(world: World, task: Task, played) -> object:
    (verdict,) = asyncio.run(world.parts[0].verifier.verify([submission(task, played)]))
    return verdict.outcome


@pytest.fixture(scope="module")
def hanoi() -> World:
    return load_world("textarena", {"game": "TowerOfHanoi-v0"})


def test_a_game_of_textarena_is_won_by_its_own_rules(hanoi):
    task = first(hanoi)
    played = asyncio.run(play(hanoi.environment, task, *HANOI))
    assert played.results[-1].end == "environment_success"
    assert played.outcome == {
        "components": {"invalid_move": 0.0, "turn_count": 7.0}, "is_over": True, "reward": 1.0, "turns": 7
    }  # fmt: skip
    assert judged(hanoi, task, played) == 1.0


def test_what_a_game_has_shown_before_is_not_shown_again(hanoi):
    played = asyncio.run(play(hanoi.environment, first(hanoi), "[A C]", "[A B]"))
    assert "You are playing Tower of Hanoi" in played.said[0]
    assert all("You are playing" not in text for text in played.said[1:])
    assert "You moved disk 2 from A to B" in played.said[2]
    assert "You moved disk 1" not in played.said[2]


def test_a_game_that_a_limit_cuts_off_is_worth_what_was_paid(hanoi):
    played = asyncio.run(play(hanoi.environment, first(hanoi), "[A C]"))
    assert (played.outcome["is_over"], played.outcome["reward"]) == (False, 0.0)


def test_equal_histories_have_equal_hashes_and_other_ones_others(hanoi):
    task = first(hanoi)
    one, two, other = (asyncio.run(play(hanoi.environment, task, *t)) for t in (["[A C]"], ["[A C]"], ["[A B]"]))
    assert one.hashes == two.hashes
    assert one.hashes[0] == other.hashes[0]
    assert one.hashes[1] != other.hashes[1]


def test_games_that_take_turns_see_the_random_numbers_that_they_would_see_alone():
    world = load_world("textarena", {"game": "Blackjack-v0"})
    (stratum,) = world.tasks(SplitSizes(train=2, held_out=0), 0)
    moves = ("[Hit]", "[Stand]", "[Hit]", "[Hit]", "[Stand]")

    async def together() -> list[list[str]]:
        played = await asyncio.gather(*(play(world.environment, task, *moves) for task in (*stratum.train,) * 2))
        return [one.said for one in played]

    random.seed(5)
    before = random.getstate()
    alone = [asyncio.run(play(world.environment, task, *moves)).said for task in stratum.train]
    assert asyncio.run(together()) == alone * 2
    assert alone[0] != alone[1]
    assert random.getstate() == before


def test_another_seat_is_played_by_the_opponent_that_was_named():
    arguments = {"game": "TicTacToe-v0", "num_players": 2, "opponent": f"{CLASSES}:first_free"}
    world = load_world("textarena", arguments)
    played = asyncio.run(play(world.environment, first(world), "[4]", "[2]", "[6]"))
    assert "[Player 1]" in "".join(played.said)
    assert played.outcome["is_over"]
    assert played.outcome["reward"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"game": "Wordle-v0"}, "downloads word lists"),
        ({"game": "TwentyQuestions-v0"}, "asks a model on the network"),
        ({"game": "Hanoi-v9"}, "not found in registry"),
        ({"game": "TicTacToe-v0", "num_players": 2}, "needs an opponent"),
        ({"game": "TicTacToe-v0"}, "cannot be played here"),
    ],
)
def test_games_that_cannot_be_had_are_refused_with_the_reason(arguments, sentence):
    with pytest.raises(RecipeError, match=sentence):
        load_world("textarena", arguments)


def step_world(folder: Path, **more: object) -> World:
    given = rows(
        folder, {"prompt": "Ready?", "extra_info": {"start": 2}}, {"prompt": "Now?", "extra_info": {"start": 3}}
    )
    entry = {"entry": f"{CLASSES}:CountdownEnv", "rows": given, "settings": '{"spread": 1000}'}
    return load_world("skyrl_gym", {**entry, **more})


def test_an_environment_of_init_and_step_is_played_by_text(tmp_path):
    world = step_world(tmp_path, settings='{"spread": 0}')
    task = first(world)
    start = json.loads(task.payload)["info"]["row"]["extra_info"]["start"]
    played = asyncio.run(play(world.environment, task, "x", *map(str, range(start, 0, -1))))
    assert played.said[1] == f"Count down from {start}."
    assert [r.rewards[0].value for r in played.results[1:]] == [-0.25, *[0.0] * (start - 1), 1.0]
    assert played.outcome["components"] == {"wrong": 1.0}
    assert judged(world, task, played) == 0.75
    assert played.results[-1].end == "environment_failure"


def test_what_an_environment_draws_is_decided_by_the_seed_of_the_episode(tmp_path):
    world = step_world(tmp_path)
    said = [asyncio.run(play(world.environment, first(world), seed=seed)).said[1] for seed in (1, 1, 2)]
    assert said[0] == said[1] != said[2]


@pytest.mark.parametrize(("action", "sentence"), [("image", "holds a list; only text"), ("rewrite", "rewrites what")])
def test_what_an_environment_says_beyond_text_breaks_it_by_name(tmp_path, action, sentence):
    world = step_world(tmp_path)
    with pytest.raises(EnvironmentBrokenError, match=sentence):
        asyncio.run(play(world.environment, first(world), action))


@pytest.mark.row("S473")
def test_the_registry_loads_an_environment_of_another_package_by_name_and_version(tmp_path):
    row = {"prompt": "What is 2 + 2?", "reward_spec": {"ground_truth": "4"}}
    arguments = {"entry": "gsm8k", "rows": rows(tmp_path, row), "package": "skyrl-gym"}
    world = load_world("skyrl_gym", {**arguments, "version": "0.4.0"})
    task = first(world)
    played = asyncio.run(play(world.environment, task, "It is\n#### 4"))
    assert played.results[-1].end == "environment_success"
    assert judged(world, task, asyncio.run(play(world.environment, task, "#### 5"))) == 0.0
    with pytest.raises(RecipeError, match="asks for skyrl-gym 0.3.9 and 0.4.0 is installed"):
        load_world("skyrl_gym", {**arguments, "version": "0.3.9"})
    with pytest.raises(RecipeError, match="No registered env with id: gsm9k"):
        load_world("skyrl_gym", {**arguments, "entry": "gsm9k"})


def trl_world(folder: Path, *given: dict, **more: object) -> World:
    return load_world("trl", {"factory": f"{CLASSES}:Counter", "rows": rows(folder, *given), **more})


def test_a_class_of_trl_is_reset_with_its_row_and_pays_by_itself(tmp_path):
    world = trl_world(tmp_path, {"prompt": "Count.", "goal": 4, "shown": True})
    task = first(world)
    played = asyncio.run(play(world.environment, task, [("add", {"amount": 3}), ("add", {"amount": 1})], "done"))
    assert played.said[0] == "Count. The goal is 4."
    assert set(played.tools) == {"add", "look"}
    assert [result.text for result in played.called] == ["total 3", "total 4"]
    assert (judged(world, task, played), played.results[-1].end) == (1.0, "environment_success")
    assert played.outcome["components"] == {"get_reward": 1.0}


def test_what_the_policy_gets_wrong_at_a_tool_is_said_to_it(tmp_path):
    world = trl_world(tmp_path, {"prompt": "Count.", "goal": 0})
    calls = [("add", {"amount": 9}), ("add", "{}"), ("jump", {}), ("look", {})]
    played = asyncio.run(play(world.environment, first(world), calls, "done"))
    assert [result.status for result in played.called] == ["tool_error", "invalid_call", "invalid_call", "ok"]
    assert "too much at once" in played.called[0].text
    assert played.called[3].text == "0"
    assert played.said == ["Count."]


def test_reward_functions_of_trl_are_called_as_there(tmp_path):
    world = trl_world(tmp_path, {"prompt": "Count.", "goal": 0}, rewards=f"{CLASSES}:says_please")
    task = first(world)
    played = asyncio.run(play(world.environment, task, "please"))
    assert judged(world, task, played) == 1.5
    assert played.outcome["components"] == {"get_reward": 1.0, "says_please": 0.5}


@pytest.mark.parametrize(
    ("factory", "sentence"),
    [(Silent, "no get_reward"), (dict, "no reset"), (Untyped, "subtract: parameter amount has no type")],
)
def test_a_class_that_cannot_be_played_is_refused_with_the_reason(factory, sentence):
    with pytest.raises(EnvironmentSetupError, match=sentence):
        TrlClass(factory, {})


def test_objects_of_two_episodes_are_two(tmp_path):
    world = trl_world(tmp_path, {"prompt": "Count.", "goal": 1})
    for _ in range(2):
        played = asyncio.run(play(world.environment, first(world), [("add", {"amount": 1})], "done"))
        assert played.outcome["reward"] == 1.0
    assert Counter().total == 0


class Hung:
    """A game that never begins."""

    tools: dict[str, str] = {}

    async def begin(self) -> Move:
        await asyncio.Event().wait()
        return Move()

    async def call(self, request):
        raise AssertionError

    async def act(self, action) -> Move:
        return Move(messages=(Message(role="user", text="x" * 100),), reward=float("inf"))

    async def leave(self) -> Departure:
        return Departure()


def test_a_game_that_does_not_come_back_or_pays_no_number_is_broken(hanoi):
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def start(task, seed):
        yield Hung()

    environment = AdaptedEnvironment(
        name="hung", settings={}, start=start, limits=GameLimits(call_timeout_s=0.05, message_characters=16)
    )
    with pytest.raises(EnvironmentBrokenError, match="hung does not begin: TimeoutError"):
        asyncio.run(play(environment, first(hanoi)))

    async def snapshot() -> None:
        async with environment.open(first(hanoi), seed=0) as episode:
            await episode.snapshot()

    with pytest.raises(NotSnapshottableError, match="restarts from its seed"):
        asyncio.run(snapshot())
    with pytest.raises(EnvironmentSetupError, match="has no demonstrations"):
        environment.demonstrate(first(hanoi), 0)
