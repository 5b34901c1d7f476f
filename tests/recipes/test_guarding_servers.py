"""A server that dies and comes back: its breaker opens, nothing is scored meanwhile, and what waits goes on."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rollwright.recipes.build.guarding import Guarded, guard_world
from rollwright.recipes.build.tasks import build_mixture
from rollwright.recipes.build.world import build_world
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.config.world import WorldEnvironmentConfig
from rollwright.recipes.resolve import resolve
from rollwright.recipes.worlds import load_world
from rollwright.record import Environment, Task, TerminalReason, Trajectory
from rollwright.rendering import Renderer
from rollwright.rollout import FixedClock, Limits, run_episode
from rollwright.runtime.breaker import Breaker, BreakerRules
from rollwright.tasks import payload_of
from tests.environments.foreign.servers import GymServer, OpenServer, serving
from tests.rendering.tokenizers_for_tests import small_renderer
from tests.rollout.fakes import FakeEngine, spec_of, whole
from tests.verifiers.judging.judges import judge_server
from tests.verifiers.submissions import submitted

RULES = BreakerRules(failures=2, open_s=10, factor=1, longest_open_s=10, look_s=0.001)
MCP_SERVER = Path(__file__).parents[1] / "environments" / "mcp_server.py"
ROW = {
    "responses_create_params": {"input": [{"role": "user", "content": "Put 5 coins."}], "tools": []},
    "sum": 0,
}


@pytest.fixture(scope="module")
def renderer(tmp_path_factory):
    return small_renderer(tmp_path_factory.mktemp("tokenizer"))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def guarded(recipe: RecipeConfig, clock: FixedClock) -> Generator[Guarded]:
    world = build_world(recipe)
    try:
        yield guard_world(world, recipe, clock, lambda sentence: None, RULES)
    finally:
        world.close()


def world_recipe(name: str, url: str, folder: Path) -> RecipeConfig:
    arguments = f'url="{url}", timeout_s=1.0'
    if name == "nemo_gym":
        rows = folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({**ROW, "sum": 0, "number": n}) + "\n" for n in range(40)))
        arguments += f', rows="{rows}"'
    else:
        arguments += f', transport="{name}"'
    sizes = ("tasks.num_train=4", "tasks.num_held_out=1")
    named = "nemo_gym" if name == "nemo_gym" else "openenv"
    settings = (f"environment.name={named}", f"environment.arguments={{{arguments}}}", *sizes)
    return resolve("text-world-tiny", settings).recipe


def first_task(recipe: RecipeConfig) -> Task:
    environment = recipe.environment
    is_world = isinstance(environment, WorldEnvironmentConfig)
    world = load_world(environment.name, environment.arguments) if is_world else None
    return build_mixture(recipe.tasks, seed=0, world=world).strata[0].train[0]


@dataclass
class Player:
    """Plays episodes of one task by the real driver; the policy always takes the same turns."""

    renderer: Renderer
    environment: Environment
    task: Task
    turns: Sequence[np.ndarray]

    async def play(self) -> Trajectory:
        return await run_episode(
            spec_of(limits=Limits(turns=4), task=self.task),
            engines={"policy": FakeEngine([whole(turn) for turn in self.turns])},
            environment=self.environment,
            renderer=self.renderer,
            clock=FixedClock(),
        )


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - what is waited for is the state of another object
            await asyncio.sleep(0.001)


async def refuses_and_recovers(
    player: Player, breaker: Breaker, clock: FixedClock, come_back: Callable[[], AbstractAsyncContextManager[None]]
) -> None:
    """While the server is gone episodes fail by no doing of the policy, then none is opened, then they go on."""
    for _ in range(RULES.failures):
        assert breaker.state == "closed"
        ended = await player.play()
        assert ended.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE
        assert not ended.terminal_reason.is_trainable
    assert breaker.state == "open"
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(player.play(), name=f"play {n}") for n in range(3)]
        await until(lambda: breaker.num_waiting == 3)
        async with come_back():
            clock.advance(RULES.open_s)
            await until(lambda: all(task.done() for task in waiting))
    assert [task.result().terminal_reason.is_trainable for task in waiting] == [True] * 3
    assert breaker.state == "closed"


@pytest.mark.parametrize("name", ["websocket", "http", "nemo_gym"])
def test_an_environment_over_http_that_dies_is_not_opened_until_it_is_back(renderer, tmp_path, name: str) -> None:
    port = free_port()

    @asynccontextmanager
    async def server() -> AsyncGenerator[None]:
        async with serving(GymServer() if name == "nemo_gym" else OpenServer(), port=port):
            yield

    async def go() -> None:
        clock = FixedClock()
        recipe = world_recipe(name, f"http://127.0.0.1:{port}", tmp_path)
        with guarded(recipe, clock) as found:
            (breaker,) = found.breakers
            task = first_task(recipe)
            seed = payload_of(task).number("seed", 0)
            said = "I am done." if name == "nemo_gym" else json.dumps({"guess": str(int(seed) % 10)})
            player = Player(renderer, found.environment, task, [renderer.encode_turn(said, ())])
            async with server():
                assert (await player.play()).terminal_reason.is_trainable
            await refuses_and_recovers(player, breaker, clock, server)

    asyncio.run(asyncio.wait_for(go(), 60))


@contextmanager
def mcp_server(port: int) -> Generator[None]:
    process = subprocess.Popen(
        [sys.executable, str(MCP_SERVER), "--http", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the server does not listen"
                time.sleep(0.01)
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("connection", ["shared", "episode"])
def test_an_mcp_server_over_http_that_dies_is_not_opened_until_it_is_back(renderer, connection: str) -> None:
    port = free_port()

    @asynccontextmanager
    async def again() -> AsyncGenerator[None]:
        with mcp_server(port):
            yield

    clock = FixedClock()
    served = f'{{kind="mcp", url="http://127.0.0.1:{port}/mcp", connection="{connection}"}}'
    recipe = resolve("arithmetic-tool", (f"environment={served}", "tasks.num_train=8", "tasks.num_held_out=4")).recipe
    turns = [renderer.encode_turn("", [("keep", '{"word": "a"}')]), renderer.encode_turn("done", ())]
    with ExitStack() as stack:
        first = stack.enter_context(ExitStack())
        first.enter_context(mcp_server(port))
        found = stack.enter_context(guarded(recipe, clock))
        (breaker,) = found.breakers
        player = Player(renderer, found.environment, first_task(recipe), turns)

        async def go() -> None:
            assert (await player.play()).terminal_reason.is_trainable
            first.close()
            await refuses_and_recovers(player, breaker, clock, again)

        asyncio.run(asyncio.wait_for(go(), 120))


def test_a_judge_over_http_that_dies_is_not_asked_until_it_is_back_and_scores_nothing_meanwhile() -> None:
    async def go() -> None:
        clock = FixedClock()
        with judge_server() as server:
            judge = f'{{kind="judge", backend="server", url="{server.url}", model="m", attempts=1}}'
            recipe = resolve("arithmetic-tool", (f"verifier.parts=[{judge}]", "tasks.num_train=8")).recipe
            with guarded(recipe, clock) as found:
                (breaker,) = found.breakers
                composition = found.verifiers.composition
                submission = submitted("answer: 4", "4")
                (scored,) = await composition.score([submission])
                assert isinstance(scored.outcome, float)
                server.answers += [(503, "overloaded")] * 3
                for _ in range(RULES.failures):
                    assert breaker.state == "closed"
                    (failed,) = await composition.score([submission])
                    assert failed.outcome == "infrastructure"
                assert breaker.state == "open"
                asked = len(server.requests)
                async with asyncio.TaskGroup() as group:
                    waiting = [group.create_task(composition.score([submission])) for _ in range(3)]
                    await until(lambda: breaker.num_waiting == 3)
                    assert len(server.requests) == asked
                    clock.advance(RULES.open_s)
                    await until(lambda: breaker.state == "open" and len(server.requests) == asked + 1)
                    clock.advance(RULES.open_s)
                outcomes = [task.result()[0].outcome for task in waiting]
                assert sorted(map(str, outcomes)) == sorted(["infrastructure", *[str(scored.outcome)] * 2])
                assert breaker.state == "closed"

    asyncio.run(asyncio.wait_for(go(), 60))
