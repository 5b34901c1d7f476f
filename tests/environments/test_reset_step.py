"""Games with reset and step: the batched form of ALFWorld and the plain form of WebShop."""

import asyncio
import json
from dataclasses import dataclass, field

import pytest

from rollwright.environments import ResetStepEnvironment, ResetStepRules
from rollwright.record import Action, EnvironmentBrokenError, Message
from rollwright.tasks import Payload, make_task

GOAL = make_task(
    Payload(messages=(Message(role="user", text="put the mug in the sink"),), answer="-", info={}),
    source="fixture",
    revision="1",
    split="train",
)


@dataclass
class Household:
    """A game in lists of one, as ALFWorld's batch environment answers."""

    seed: int
    place: str = "start"
    held: bool = False
    closed: list[bool] = field(default_factory=list)

    def reset(self):
        return [f"-= Welcome =- room {self.seed % 3}. You are at start."], self._info()

    def step(self, action):
        if action not in self._can():
            return ["Nothing happens."], [0], [False], self._info()
        if action.startswith("go to "):
            self.place = action.removeprefix("go to ")
        elif action.startswith("take"):
            self.held = True
        is_done = action.startswith("put")
        return (
            [f"You are at {self.place}, mug {'held' if self.held else 'on shelf'}."],
            [int(is_done)],
            [is_done],
            self._info(),
        )

    def close(self):
        self.closed.append(True)

    def _can(self):
        there = {"shelf": [] if self.held else ["take mug"], "sink": ["put mug"] if self.held else []}
        return ["go to shelf", "go to sink", *there.get(self.place, [])]

    def _info(self):
        return {"admissible_commands": [self._can()], "won": [False]}


@dataclass
class Shop:
    """A game with plain values and an info of None, as WebShop's text environment answers."""

    seed: int
    page: str = "search"
    drift: int = 0

    def reset(self):
        return "Instruction: buy a mug [SEP] Search", None

    def step(self, action):
        if action == "search[mug]":
            self.page = "results"
        elif action == "click[buy]" and self.page == "results":
            return "Thank you", 0.5, True, None
        return f"{self.page} {self.drift}", 0.0, False, None

    def close(self):
        pass


def environment_of(make, **rules):
    return ResetStepEnvironment(make, name="fixture", revision="1", rules=ResetStepRules(**rules))


ALFWORLD = {"make": lambda task, seed: Household(seed), "way": ("go to shelf", "take mug", "go to sink", "put mug")}
WEBSHOP = {"make": lambda task, seed: Shop(seed), "way": ("search[mug]", "click[buy]")}


def played(environment, actions, *, seed=0, snapshot=None):
    async def scenario():
        async with environment.open(GOAL, seed=seed, snapshot=snapshot) as episode:
            said = [await episode.begin()]
            for turn, action in enumerate(actions):
                said.append(await episode.step(Action(actor="agent", turn=turn, text=action, calls=())))
            return said, json.loads((await episode.artifacts())["final_state.json"].decode()), await episode.snapshot()

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("game", "won"),
    [
        pytest.param(ALFWORLD, "environment_success", id="alfworld"),
        pytest.param(WEBSHOP, "environment_failure", id="webshop"),
    ],
)
def test_a_game_resets_steps_and_replays_from_its_seed(game, won):
    environment = environment_of(game["make"])
    said, left, _ = played(environment, game["way"], seed=4)
    assert said[0].observations[0].messages[0].text.startswith("put the mug in the sink\n")
    assert said[-1].end == won
    assert left["turns"] == len(game["way"])
    assert (said, left) == played(environment_of(game["make"]), game["way"], seed=4)[:2]


def test_what_can_be_done_is_listed_and_what_cannot_is_counted():
    said, left, _ = played(environment_of(ALFWORLD["make"]), ["fly", "go to shelf"])
    assert said[0].observations[0].messages[0].text.endswith("you can:\ngo to shelf\ngo to sink")
    assert "Nothing happens." in said[1].observations[0].messages[0].text
    assert left["invalid"] == 1


def test_a_partial_reward_is_kept_and_a_win_where_it_is_said_to_be_enough():
    environment = environment_of(WEBSHOP["make"], won_reward=0.5)
    said, left, _ = played(environment, WEBSHOP["way"])
    assert said[-1].end == "environment_success"
    assert left["return"] == 0.5


@pytest.mark.parametrize("game", [ALFWORLD, WEBSHOP], ids=["alfworld", "webshop"])
def test_a_snapshot_is_played_again_to_the_same_state(game):
    environment = environment_of(game["make"])
    said, _, saved = played(environment, game["way"][:1])
    again, _, _ = played(environment, (), snapshot=saved)
    assert again[0].observations[0].state_hash == said[-1].observations[0].state_hash
    assert again[0].observations[0].messages == ()
    with pytest.raises(EnvironmentBrokenError, match="snapshot does not fit"):
        played(environment, (), seed=9, snapshot=saved)


def test_a_game_that_goes_another_way_is_broken_and_is_closed_all_the_same():
    made = []

    def drifting(task, seed):
        made.append(Shop(seed, drift=len(made)))
        return made[-1]

    _, _, saved = played(environment_of(drifting), ["search[mug]"])
    with pytest.raises(EnvironmentBrokenError, match="another way"):
        played(environment_of(drifting), (), snapshot=saved)
    houses = []

    def kept(task, seed):
        houses.append(Household(seed))
        return houses[-1]

    played(environment_of(kept), ["go to shelf"])
    assert houses[0].closed == [True]


def test_equal_observations_are_equal_states_unless_info_says_more():
    said, _, _ = played(environment_of(ALFWORLD["make"]), ["go to shelf", "go to sink", "go to shelf"])
    keys = [result.observations[0].state_hash for result in said]
    assert keys[1] == keys[3] != keys[2]


def test_the_turns_run_out():
    said, _, _ = played(environment_of(ALFWORLD["make"], turns=2), ["go to shelf", "go to sink"])
    assert said[-1].end == "environment_failure"
