"""A world that ships, in a recipe: its tasks, its environment and its verifiers, and no part of it without it."""

import pytest

from rollwright.recipes.build.world import build_world
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import resolve

WORLD = ["environment={kind='world', name='arithmetic'}", "verifier.parts=[{kind='world', weight=2.0}]"]


def test_a_recipe_takes_tasks_environment_and_verifiers_of_a_world():
    recipe = resolve("arithmetic-tool", [*WORLD, "tasks={kind='world', num_train=90, num_held_out=30}"]).recipe
    built = build_world(recipe)
    try:
        assert built.environment.name == "tool"
        assert {task.source for stratum in built.mixture.strata for task in stratum.train} == {"arithmetic"}
        assert [(p.verifier.name, p.weight, p.role) for p in built.verifiers.composition.parts] == [
            ("exact", 2.0, "outcome"),
            ("format", 0.0, "shaping"),
        ]
    finally:
        built.close()


def test_parts_of_a_world_are_refused_where_the_environment_is_of_none():
    for setting in ("tasks={kind='world'}", "verifier.parts=[{kind='world'}]"):
        with pytest.raises(RecipeError, match="set environment.kind to 'world'"):
            build_world(resolve("arithmetic-tool", [setting]).recipe)


def test_a_world_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(RecipeError, match="no world 'arithmetics'; there are arithmetic.*Did you mean arithmetic?"):
        build_world(resolve("arithmetic-tool", ["environment={kind='world', name='arithmetics'}"]).recipe)
    with pytest.raises(RecipeError, match="it must return a rollwright.recipes.worlds.World"):
        build_world(resolve("arithmetic-tool", ["environment={kind='world', name='collections:OrderedDict'}"]).recipe)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{lowest='a'}", "argument lowest is 'a'. Input should be a valid integer"),
        ("{lowest=true}", "argument lowest is True. Input should be a valid integer"),
        ("{nosuch=1}", "takes no argument 'nosuch'; it takes .*isolation"),
        ("{isolation='none'}", "isolation is 'none'. Input should be 'namespaces' or 'process'"),
    ],
)
def test_arguments_that_a_world_does_not_take_are_refused_with_those_that_it_takes(arguments, said):
    setting = f"environment={{kind='world', name='interpreter', arguments={arguments}}}"
    with pytest.raises(RecipeError, match=said):
        build_world(resolve("arithmetic-tool", [setting]).recipe)
