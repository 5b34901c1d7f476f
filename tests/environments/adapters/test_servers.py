"""OpenEnv and NeMo-Gym by their protocols, against small servers of our own on the loopback (their packages cannot be
installed beside this project)."""

import asyncio
import json
from pathlib import Path

import pytest

from rollwright.environments import EnvironmentSetupError
from rollwright.environments.adapters import ServerAddress
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds import World, load_world
from rollwright.record import EnvironmentBrokenError, Task, Verdict
from rollwright.tasks import SplitSizes
from tests.environments.adapters.playing import Played, play, submission
from tests.environments.foreign.servers import GymServer, OpenServer, serving


def first(world: World) -> Task:
    (stratum,) = world.tasks(SplitSizes(train=2, held_out=0), 0)
    return stratum.train[0]


def secret(task: Task) -> str:
    return str(json.loads(task.payload)["info"]["seed"] % 10)


def wrong(task: Task) -> str:
    return "no digit"


async def outcome(world: World, task: Task, played: Played) -> Verdict:
    (verdict,) = await world.parts[0].verifier.verify([submission(task, played)])
    return verdict


@pytest.mark.parametrize("transport", ["websocket", "http"])
def test_an_openenv_server_is_reset_stepped_and_asked_for_its_state(transport):
    async def scenario() -> None:
        server = OpenServer()
        async with serving(server) as url:
            world = load_world("openenv", {"url": url, "transport": transport})
            task = first(world)
            text = json.dumps({"guess": secret(task)})
            played = await play(world.environment, task, wrong(task), '{"other": 1}', text)
            verdict = await outcome(world, task, played)
        assert played.said[:2] == ['{"text":"guess a digit"}', '{"text":"no"}']
        assert "guess is missing" in played.said[2]
        assert played.results[-1].end == "environment_success"
        assert json.loads(played.left["state.json"])["steps"] == 2
        assert verdict.outcome == 1.0
        assert server.closed == (transport == "websocket")

    asyncio.run(scenario())


def test_equal_tasks_are_reset_alike_and_episodes_share_nothing():
    async def scenario() -> None:
        async with serving(OpenServer()) as url:
            world = load_world("openenv", {"url": url, "field": "guess"})
            task = first(world)
            both = await asyncio.gather(*(play(world.environment, task, "x", "x") for _ in range(2)))
            assert both[0].hashes == both[1].hashes

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("silent", "does not answer: TimeoutError"),
        ("cut", "does not answer: IncompleteReadError"),
        ("garbage", "answers no JSON object"),
        ("factory", "FACTORY_ERROR: no room"),
    ],
)
def test_a_server_that_fails_breaks_the_environment_and_is_no_doing_of_the_policy(fault, sentence):
    async def scenario() -> None:
        async with serving(OpenServer(fault=fault)) as url:
            world = load_world("openenv", {"url": url, "timeout_s": 0.3})
            await play(world.environment, first(world), "1")

    with pytest.raises(EnvironmentBrokenError, match=sentence):
        asyncio.run(scenario())


@pytest.mark.parametrize("name", ["openenv", "nemo_gym"])
def test_a_server_that_is_down_breaks_the_environment(name, tmp_path):
    async def closed_address() -> str:
        async with serving(OpenServer()) as url:
            return url

    world = load_world(name, {"url": asyncio.run(closed_address()), **row_file(name, tmp_path)})
    with pytest.raises(EnvironmentBrokenError, match="is not there"):
        asyncio.run(play(world.environment, first(world), "1"))


def row_file(name: str, folder: Path, *given: dict) -> dict[str, str]:
    if name == "openenv":
        return {}
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in given or (gym_row(),)))
    return {"rows": str(path)}


def gym_row(total: int = 5, **params: object) -> dict:
    tool = {"type": "function", "name": "put", "description": "Put coins.", "parameters": {"type": "object"}}
    broken = {"type": "function", "name": "break", "parameters": {}}
    asked = {"input": [{"role": "user", "content": f"Put {total} coins."}], "tools": [tool, broken], **params}
    return {"responses_create_params": asked, "sum": total}


def gym(folder: Path, url: str, *given: dict) -> World:
    return load_world("nemo_gym", {"url": url, **row_file("nemo_gym", folder, *given)})


def test_a_resource_server_keeps_a_session_runs_its_tools_and_pays_at_the_end(tmp_path):
    async def scenario() -> None:
        server = GymServer()
        async with serving(server) as url:
            world = gym(tmp_path, url)
            task = first(world)
            calls = [("put", {"coins": 2}), ("put", {"coins": 3}), ("put", {}), ("put", "[]"), ("take", {})]
            played, other = await asyncio.gather(
                play(world.environment, task, calls, "done"), play(world.environment, task, "nothing")
            )
            verdict = await outcome(world, task, played)
        assert set(played.tools) == {"put", "break"}
        assert [result.status for result in played.called] == [
            "ok", "ok", "tool_error", "invalid_call", "invalid_call"
        ]  # fmt: skip
        assert played.called[1].text == "5 in the till"
        assert (verdict.outcome, other.outcome["reward"]) == (1.0, 0.25)
        assert {c.name: c.value for c in verdict.components} == {"said": 1.0, "sum": 1.0}
        (sent,) = [v for v in server.verified if len(v["response"]["output"]) > 1]
        kinds = [item["type"] for item in sent["response"]["output"]]
        assert kinds == ["function_call"] * 5 + ["function_call_output"] * 5 + ["message"]
        assert sent["sum"] == 5

    asyncio.run(scenario())


def test_an_episode_that_a_limit_cuts_off_is_verified_all_the_same(tmp_path):
    async def scenario() -> Played:
        async with serving(GymServer()) as url:
            world = gym(tmp_path, url)
            return await play(world.environment, first(world), [("put", {"coins": 5})])

    played = asyncio.run(scenario())
    assert played.outcome == {"components": {"said": 0.0, "sum": 1.0}, "is_over": False, "reward": 0.75, "turns": 1}


@pytest.mark.parametrize(("masks", "turn", "sentence"), [(True, "x", "masks the sample: lost"), (False, None, "500")])
def test_what_the_server_cannot_judge_has_no_reward(tmp_path, masks, turn, sentence):
    async def scenario() -> None:
        async with serving(GymServer(masks=masks)) as url:
            world = gym(tmp_path, url)
            await play(world.environment, first(world), turn or [("break", {})])

    with pytest.raises(EnvironmentBrokenError, match=sentence):
        asyncio.run(scenario())


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"temperature": 0.5, "max_output_tokens": 9}, "sets max_output_tokens, temperature"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "image"),
        ({"input": [{"type": "function_call"}]}, "is no message"),
        ({"input": []}, "must end with a message of the user"),
    ],
)
def test_rows_that_cannot_be_carried_are_refused_by_name(tmp_path, params, sentence):
    world = gym(tmp_path, "http://127.0.0.1:9", gym_row(**params))
    with pytest.raises(RecipeError, match=sentence):
        first(world)


def test_an_address_that_names_no_server_is_refused():
    with pytest.raises(EnvironmentSetupError, match="names no server"):
        ServerAddress.of("localhost:80")
    assert str(ServerAddress.of("https://example.org/a/")) == "example.org:443/a"
    with pytest.raises(RecipeError, match="allowed are websocket and http"):
        load_world("openenv", {"url": "http://127.0.0.1:9", "transport": "carrier pigeon"})
