"""Environments of the package verifiers (0.4): unchanged modules of the kind that its users write."""

import asyncio
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from rollwright.environments.adapters import CONVERSATION, AdaptedEnvironment, VerifiersGames
from rollwright.recipes.worlds import load_world
from rollwright.record import EnvironmentBrokenError, Task
from rollwright.tasks import Json, SplitSizes, TaskError, VerifiersPackage, fill_splits, open_verifiers
from rollwright.verifiers.rubric_scores import open_rubric
from tests.environments.adapters.playing import Call, Played, play, submission

FOREIGN = Path(__file__).parents[1] / "foreign"
COUNT = ("shelf_count_letters", {"word": "abc"})


@pytest.fixture(autouse=True, scope="module")
def path_of_modules() -> Iterator[None]:
    sys.path.insert(0, str(FOREIGN))
    yield
    sys.path.remove(str(FOREIGN))


class Opened:
    """A loaded environment, its first task, and its own rewards, in this process."""

    def __init__(self, taskset: str, **arguments: Json) -> None:
        self.package: VerifiersPackage = open_verifiers(taskset, arguments)
        self.environment = AdaptedEnvironment(name="verifiers", settings={}, start=VerifiersGames(self.package).open)
        sizes = SplitSizes(train=2, held_out=1)
        self.task: Task = fill_splits(self.package.rows(), sizes, name=taskset, revision="r").train[0]
        self.row = json.loads(self.task.payload)["info"]["data"]
        settings = {"taskset": taskset, "arguments": arguments, "environment": "", "settings": {}}
        self.score = cast("Callable[[object], dict]", open_rubric(settings))

    def play(self, *turns: str | Sequence[Call]) -> Played:
        return asyncio.run(play(self.environment, self.task, *turns))

    def judge(self, played: Played) -> dict:
        return self.score(json.loads(played.left[CONVERSATION]))


@pytest.fixture(scope="module")
def words() -> Opened:
    return Opened("rw_words")


@pytest.fixture(scope="module")
def guess() -> Opened:
    return Opened("rw_guess")


def test_a_row_is_asked_with_its_system_prompt_and_its_tools(words):
    played = words.play("x")
    assert played.said == ["One word.", words.row["prompt"]]
    definition = json.loads(played.tools["shelf_count_letters"])["function"]
    assert definition["description"] == "How many letters a word has."
    assert definition["parameters"]["required"] == ["word"]


def test_tools_act_on_the_state_of_the_episode_and_rewards_read_it(words):
    calls = [COUNT, ("shelf_count_letters", {"word": "a1"}), ("shelf_count_letters", {"wo": 1}), ("take", {})]
    played = words.play(calls, [("shelf_count_letters", "no JSON")], words.row["answer"])
    statuses = [result.status for result in played.called]
    assert statuses == ["ok", "tool_error", "tool_error", "invalid_call", "invalid_call"]
    assert played.called[0].text == "3"
    assert "is no word" in played.called[1].text
    assert words.judge(played) == {
        "reward": 1.25,
        "rewards": {"exact": 1.0, "counted": 1.0},
        "metrics": {"letters": float(len(words.row["answer"]))},
    }


def test_a_wrong_answer_and_an_unused_tool_earn_nothing(words):
    assert words.judge(words.play("xx"))["reward"] == 0.0


def test_hooks_before_and_after_the_run_are_called(words):
    record = json.loads(words.play("x").left[CONVERSATION])
    assert record["info"] == {"opened": words.row["answer"], "closed": 1}
    assert record["stop_condition"] == "agent_completed"


def test_a_stop_of_the_task_ends_the_run_between_two_turns(words):
    played = words.play([COUNT], [COUNT], [COUNT], "never asked")
    assert len(played.results) == 4
    assert json.loads(played.left[CONVERSATION])["stop_condition"] == "counted_enough"
    assert words.judge(played)["rewards"] == {"exact": 0.0, "counted": 1.0}


def test_episodes_at_once_have_states_of_their_own(words):
    async def both() -> tuple[Played, Played]:
        one, two = await asyncio.gather(
            play(words.environment, words.task, [COUNT], "a"), play(words.environment, words.task, "b")
        )
        return one, two

    one, two = asyncio.run(both())
    assert [json.loads(p.left[CONVERSATION])["state"]["counted"] for p in (one, two)] == [1, 0]


def test_a_run_of_its_own_is_played_turn_by_turn_and_keeps_its_rewards(guess):
    secret = str(guess.row["secret"])
    played = guess.play("nothing", secret)
    assert played.said == ["Guess a digit.", "No. Again."]
    assert played.results[-1].end is None
    scored = guess.judge(played)
    assert scored["rewards"] == {"guessed": pytest.approx(2 / 3), "digits": 1.0}
    assert scored["metrics"] == {"turns": 2.0, "earned": pytest.approx(2 / 3 + 0.125)}


def test_an_episode_that_a_limit_cuts_off_ends_its_run_and_is_scored(guess):
    played = guess.play("nothing")
    assert json.loads(played.left[CONVERSATION])["stop_condition"] == "max_total_tokens"
    assert guess.judge(played)["rewards"]["guessed"] == 0.0


def test_an_episode_that_is_left_early_leaves_no_task_behind(guess):
    async def scenario() -> None:
        async with guess.environment.open(guess.task, seed=0) as episode:
            await episode.begin()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def written(folder: Path, name: str, source: str) -> str:
    (folder / f"{name}.py").write_text("import verifiers.v1 as vf\n" + source)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    return name


SET = """
__all__ = ["Set"]
class Set(vf.Taskset[Row, vf.TasksetConfig]):
    def load(self):
        yield Row(vf.TaskData(prompt="q?", {data}), self.config.task)
"""


@pytest.mark.parametrize(
    ("name", "source", "sentence"),
    [
        (
            "rx_image",
            "class Row(vf.Task): pass" + SET.format(data="image='python:3'"),
            "row 0 asks for image='python:3'",
        ),
        ("rx_container", "class Row(vf.Task):\n    NEEDS_CONTAINER = True" + SET.format(data=""), "needs a container"),
        (
            "rx_runtime",
            "class Row(vf.Task):\n    @vf.reward\n    async def r(self, trace, runtime) -> float:\n        return 1.0"
            + SET.format(data=""),
            "Row.r scores in a runtime",
        ),
        (
            "rx_hooks",
            "class Row(vf.Task):\n    @vf.intercept\n    async def i(self, request: vf.Request):\n        return None"
            + SET.format(data=""),
            "intercepts requests of the model",
        ),
        (
            "rx_seats",
            "class Row(vf.Task): pass"
            + SET.format(data="").replace('["Set"]', '["Set", "Two"]')
            + "class Config(vf.EnvConfig):\n    a: vf.AgentConfig = vf.AgentConfig()\n"
            "    b: vf.AgentConfig = vf.AgentConfig()\n"
            "class Two(vf.Env[Config]):\n    async def run(self, task, agents): pass\n",
            "has the seats a, b",
        ),
        ("rx_old", "def load_environment(**arguments): pass", "gave up before 0.4"),
    ],
)
def test_what_cannot_be_carried_is_refused_by_name(tmp_path, name, source, sentence):
    taskset = written(tmp_path, name, source)
    try:
        with pytest.raises(TaskError, match=sentence):
            list(open_verifiers(taskset, {}).rows())
    finally:
        sys.path.remove(str(tmp_path))


def test_a_task_that_reaches_for_a_machine_breaks_by_the_name_of_what_it_wanted(tmp_path):
    source = "class Row(vf.Task):\n    async def setup(self, trace, runtime):\n        await runtime.run(['ls'])"
    taskset = written(tmp_path, "rx_setup", source + SET.format(data=""))
    try:
        with pytest.raises(EnvironmentBrokenError, match="uses runtime.run; the adapter gives no runtime"):
            Opened(taskset).play("x")
    finally:
        sys.path.remove(str(tmp_path))


@pytest.mark.slow
def test_the_rewards_are_a_verifier_in_a_process_of_its_own(words):
    world = load_world("verifiers", {"taskset": "rw_words"})
    try:
        played = words.play([COUNT], words.row["answer"])
        verifier = world.parts[0].verifier
        right, empty = asyncio.run(
            verifier.verify([submission(words.task, played), submission(words.task, Played(left={}))])
        )
    finally:
        world.close()
    assert right.outcome == 1.25
    assert {c.name: c.value for c in right.components}["counted"] == 1.0
    assert empty.outcome == "grader_error"
