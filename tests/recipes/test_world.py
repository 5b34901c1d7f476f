"""What a run stands on is refused before anything is sampled where it does not fit."""

import pytest

from rollwright.recipes.build.world import build_world
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import resolve


@pytest.mark.parametrize("targets", ["arithmatic=1.0", "arithmetic=0.5, other=0.5"])
def test_targets_of_other_sources_than_the_tasks_are_refused_by_name(targets):
    recipe = resolve("arithmetic-tool", [f"objective.source_targets={{{targets}}}"]).recipe
    with pytest.raises(RecipeError, match="but the tasks come from arithmetic; give each of these its share"):
        build_world(recipe)


def test_targets_of_all_sources_are_taken():
    build_world(resolve("arithmetic-tool", ["objective.source_targets={arithmetic=0.5}"]).recipe).close()
