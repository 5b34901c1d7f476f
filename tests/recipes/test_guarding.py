"""What a run asks of others stands behind a breaker, and nothing else does."""

from rollwright.recipes.build.guarding import guard_world
from rollwright.recipes.build.world import build_world
from rollwright.recipes.resolve import resolve
from rollwright.rollout import FixedClock
from rollwright.runtime.breaker import BreakerRules
from rollwright.runtime.guarded import GuardedVerifier

SMALL = ("tasks.num_train=8", "tasks.num_held_out=4")
RULES = BreakerRules()


def guarded(*settings: str):
    recipe = resolve("arithmetic-tool", (*SMALL, *settings)).recipe
    world = build_world(recipe)
    try:
        return world, guard_world(world, recipe, FixedClock(), lambda sentence: None, RULES)
    finally:
        world.close()


def test_what_runs_here_has_no_breaker():
    world, found = guarded()
    assert found.breakers == ()
    assert found.environment is world.environment and found.verifiers is world.verifiers


def test_the_parts_of_a_world_have_none():
    recipe = resolve("text-world-tiny", SMALL).recipe
    world = build_world(recipe)
    try:
        assert guard_world(world, recipe, FixedClock(), lambda sentence: None, RULES).breakers == ()
    finally:
        world.close()


def test_a_judge_has_one_of_its_own_and_the_rule_of_the_reward_is_the_same():
    judge = '{kind="judge", backend="custom", model="tests.recipes.test_guarding:client"}'
    world, found = guarded(f'verifier.parts=[{{kind="exact"}}, {judge}]')
    assert [breaker.name for breaker in found.breakers] == ["verifier judge"]
    exact, asked = found.verifiers.composition.parts
    assert not isinstance(exact.verifier, GuardedVerifier) and isinstance(asked.verifier, GuardedVerifier)
    assert found.verifiers.composition.revision == world.verifiers.composition.revision


class Client:
    """A judge from outside."""

    revision = "1"

    async def complete(self, messages: object, **_: object) -> str:
        return "yes"


def client() -> Client:
    return Client()
