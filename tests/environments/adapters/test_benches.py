"""The interfaces of AgentBench and AppWorld: reset, step and replay, on small worlds of that form."""

import asyncio
import json
import random
from collections.abc import Callable

import pytest

from rollwright.environments.adapters import AdaptedEnvironment, AgentBench, AppWorldGames, BenchTask
from rollwright.record import EnvironmentBrokenError, Message
from rollwright.tasks import Payload, make_task
from tests.environments.adapters.playing import play
from tests.environments.foreign.benches import Broken, Forgetful, Notes, Vault, vault_reward


def task(**row):
    payload = Payload(messages=(Message(role="user", text="?"),), answer="-", info={"row": row})
    return make_task(payload, source="bench", revision="1", split="train")


def vault(make: Callable[[], BenchTask] = Vault):
    return AdaptedEnvironment(name="vault", settings={}, start=AgentBench(make, vault_reward).open)


def notes(made=None):
    def make(task_id):
        world = Notes(task_id)
        if made is not None:
            made.append(world)
        return world

    return AdaptedEnvironment(name="notes", settings={}, start=AppWorldGames(make).open)


CODE = str(random.Random(7).randint(100, 999))
ADD = "apis.notes.add('milk')"
DONE = "apis.supervisor.complete_task()"


@pytest.mark.row("S452")
def test_a_sample_of_agentbench_begins_takes_turns_and_is_paid_by_its_own_result():
    played = asyncio.run(play(vault(), task(index=7), "1", CODE))
    opening = played.results[0].observations[0].messages
    assert [message.role for message in opening] == ["user", "assistant", "user"]
    assert played.results[-1].end == "environment_success"
    assert (played.outcome["reward"], played.outcome["turns"]) == (1.0, 2)
    sample = json.loads(played.left["sample.json"])
    assert (sample["status"], sample["result"]) == ("completed", {"found": True})
    assert [said["role"] for said in sample["history"]][-2:] == ["user", "agent"]
    lost = asyncio.run(play(vault(), task(index=7), *"12345"))
    assert (lost.results[-1].end, lost.outcome["reward"]) == ("environment_failure", 0.0)


@pytest.mark.row("S452")
def test_a_sample_of_agentbench_replays_from_its_index_and_shares_nothing_with_others():
    async def several():
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(play(vault(), task(index=7), "1", "2", CODE), name=str(n)) for n in range(6)]
        return [one.result() for one in running]

    first, *others = asyncio.run(several())
    assert all((one.said, one.hashes, one.left) == (first.said, first.hashes, first.left) for one in others)
    assert asyncio.run(play(vault(), task(index=8), "1")).hashes != first.hashes[:2]


def test_a_sample_that_fails_or_forgets_is_the_environments_fault_and_one_that_is_left_ends():
    with pytest.raises(EnvironmentBrokenError, match="the database went away"):
        asyncio.run(play(vault(Broken), task(index=1), "x"))
    with pytest.raises(EnvironmentBrokenError, match="session.clear"):
        asyncio.run(play(vault(Forgetful), task(index=1), "x"))
    with pytest.raises(EnvironmentBrokenError, match="no `info.row.index`"):
        asyncio.run(play(vault(), task(number=1), "x"))

    async def left():
        async with vault().open(task(index=1), seed=0) as episode:
            await episode.begin()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(left()) == set()


@pytest.mark.row("S451")
def test_a_world_of_appworlds_interface_runs_code_until_the_task_is_completed_and_evaluates_itself():
    made = []
    turns = [
        [("execute", {"code": ADD})],
        [("execute", {"code": "print(apis.notes.list())"})],
        [("execute", {"code": DONE})],
    ]
    played = asyncio.run(play(notes(made), task(task_id="milk"), *turns))
    assert played.said == ["Add a note 'milk' and complete the task."]
    assert [result.text for result in played.called] == ["Execution successful.", "['milk']\n", "Execution successful."]
    assert (played.results[-1].end, played.outcome["reward"]) == ("environment_success", 1.0)
    assert made[0].is_closed


@pytest.mark.row("S451")
def test_a_world_of_appworlds_interface_replays_and_episodes_have_worlds_of_their_own():
    made = []
    environment = notes(made)
    turns = [[("execute", {"code": ADD}), ("execute", {"code": "1/0"})], "done"]
    one, two = (asyncio.run(play(environment, task(task_id="milk"), *turns, seed=3)) for _ in range(2))
    assert (one.said, one.called, one.hashes, one.left) == (two.said, two.called, two.hashes, two.left)
    assert one.called[1].text == "Execution failed. ZeroDivisionError: division by zero"
    assert (one.outcome["reward"], one.outcome["components"]) == (0.0, {"tests": 0.5})
    assert len(made) == 2 and all(world.is_closed for world in made)


def test_calls_that_the_world_does_not_have_are_text_that_the_policy_reads():
    wrong = [("rm", {}), ("execute", {}), ("execute", "{"), ("execute", {"code": 1})]
    played = asyncio.run(play(notes(), task(task_id="milk"), wrong))
    assert {result.status for result in played.called} == {"invalid_call"}
    with pytest.raises(EnvironmentBrokenError, match="no `info.row.task_id`"):
        asyncio.run(play(notes(), task(index=3), "x"))
