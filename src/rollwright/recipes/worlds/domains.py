"""The tools of a world, by domain."""

import asyncio
from collections.abc import Mapping

from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds.table import load_world
from rollwright.recipes.worlds.world import World
from rollwright.tasks import SplitSizes

__all__ = ["tools_by_domain"]

_OPENING_S = 60.0


def tools_by_domain(name: str, arguments: Mapping[str, object]) -> Mapping[str, tuple[str, ...]]:
    """Domain to the names of its tools, as an episode of the world offers them.

    Args:
        name: of the world, see `load_world`.
        arguments: of its callable.

    Returns:
        What the world says of its domains; one domain with the name of the world where it says nothing.

    Raises:
        RecipeError: where the domains are not of exactly the tools that an episode has.
    """
    world = load_world(name, arguments)
    try:
        offered = asyncio.run(_offered(world))
        if not world.domains:
            return {name: offered}
        named = [tool for tools in world.domains.values() for tool in tools]
        if sorted(named) != sorted(offered):
            odd = sorted(set(named) ^ set(offered)) or sorted(tool for tool in named if named.count(tool) > 1)
            raise RecipeError(
                f"world {name}: its domains and its tools differ in {', '.join(odd[:5])}; name each once."
            )
        return world.domains
    finally:
        world.close()


async def _offered(world: World) -> tuple[str, ...]:
    task = world.tasks(SplitSizes(train=1, held_out=0), 0)[0].train[0]
    async with asyncio.timeout(_OPENING_S), world.environment.open(task, seed=0) as episode:
        return tuple(episode.tools)
