"""Environments on a server: OpenEnv, and resource servers of NeMo-Gym."""

from dataclasses import replace
from pathlib import Path

from rollwright.environments.adapters import (
    AdaptedEnvironment,
    GameLimits,
    NemoGym,
    OpenEnv,
    ServerAddress,
    StartFn,
    nemo_gym_messages,
)
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds.brought import brought_demonstration, row_tasks, seeded_tasks
from rollwright.recipes.worlds.world import World, WorldTasksFn
from rollwright.tasks import SplitSizes, Stratum
from rollwright.verifiers import Part, reported_verifier

__all__ = ["load_nemo_gym", "load_open_env"]


def load_open_env(  # noqa: PLR0913 - the arguments of a recipe, by name
    *,
    url: str,
    transport: str = "websocket",
    field: str = "",
    source: str = "openenv",
    revision: str = "",
    timeout_s: float = 30.0,
    reference: str = "",
) -> World:
    """An environment on an OpenEnv server: reset with the task's seed, step by step, its rewards added up.

    Args:
        url: of the server.
        transport: `websocket`, or `http` where the server keeps one environment between requests.
        field: of the action that plain text fills; empty takes the one that the server's schema needs.
        source: name of the tasks.
        revision: of the environment, for the run's record; the protocol says none.
        timeout_s: of one exchange.
        reference: `package.module:function` of (task, seed) to turns that solve it.
    """
    if transport not in ("websocket", "http"):
        raise RecipeError(f"transport={transport!r}; allowed are websocket and http")
    address = ServerAddress.of(url, timeout_s)
    environment = OpenEnv(address=address, transport=transport, field=field)

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return seeded_tasks(source, revision or "unnamed", sizes, seed)

    world = _world("openenv", f"{source} {revision} {transport} {field}", environment.open, tasks, reference)
    return replace(world, server=str(address))


def load_nemo_gym(
    *, url: str, rows: str, source: str = "nemo_gym", revision: str = "", timeout_s: float = 30.0, reference: str = ""
) -> World:
    """A resource server of NeMo-Gym: sessions, tools as routes, and its own verification.

    Args:
        url: of the server.
        rows: JSONL file; a row has `responses_create_params` and what the server verifies by.
        source: name of the tasks.
        revision: of the server, for the run's record; the protocol says none.
        timeout_s: of one exchange.
        reference: `package.module:function` of (task, seed) to turns that solve it.
    """
    address = ServerAddress.of(url, timeout_s)
    environment = NemoGym(address=address)

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return row_tasks(Path(rows), source, revision or "unnamed", sizes, asked=nemo_gym_messages)

    return replace(_world("nemo_gym", f"{source} {revision}", environment.open, tasks, reference), server=str(address))


def _world(name: str, settings: str, start: StartFn, tasks: WorldTasksFn, reference: str) -> World:
    demonstrate = brought_demonstration(reference)
    return World(
        environment=AdaptedEnvironment(
            name=name,
            settings={"settings": settings},
            start=start,
            limits=GameLimits(call_timeout_s=120.0),
            demonstrate=demonstrate,
        ),
        tasks=tasks,
        parts=(Part(verifier=reported_verifier()),),
        reference=demonstrate,
    )
