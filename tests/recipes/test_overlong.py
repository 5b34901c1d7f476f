"""The soft penalty on overlong episodes, set in any recipe: the same ramp as DAPO's."""

import pytest
import torch

from rollwright.algorithms.credit.truncation import penalize_overlong
from rollwright.algorithms.trial import stages_of
from rollwright.recipes.build.objective import build_objective
from rollwright.recipes.config.sampling import RolloutConfig
from rollwright.recipes.resolve import preset_names, resolve
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture
from tests.recipes.test_objective_presets import PAIRS, config_of

RAMP = method_fixture("M87.a")
SETTINGS = (
    "rollout.truncation=soft_penalty",
    f"rollout.overlong_max_tokens={RAMP.input['L_max']}",
    f"rollout.overlong_buffer_tokens={RAMP.input['L_cache']}",
)


def assert_ramps(objective) -> None:
    """The objective's first stage adds the fixture's numbers to the rewards before credit sees them."""
    stage = stages_of(objective.credit)[0]
    assert stage.func is penalize_overlong
    lengths, seen = RAMP.input["len"], []
    inputs = credit_inputs([0.0] * len(lengths), lengths=lengths)
    stage.func(inputs, **{**stage.keywords, "credit": lambda i: seen.append(i.rewards)})
    assert torch.allclose(seen[0], torch.tensor(RAMP.expect["r_len"], dtype=torch.float64), atol=RAMP.tol)


@pytest.mark.row("S374")
@pytest.mark.parametrize("name", preset_names())
def test_every_recipe_that_ships_takes_the_soft_penalty_with_the_ramp_of_the_fixture(name):
    labels = resolve(name).recipe.run.labels
    relabeled = f"run.labels.rollout.truncation={labels['rollout.truncation']}"
    recipe = resolve(name, [*SETTINGS, relabeled]).recipe
    assert_ramps(build_objective(recipe.objective, recipe.rollout))


@pytest.mark.row("S374")
@pytest.mark.parametrize("kind", PAIRS)
def test_every_objective_takes_the_soft_penalty_with_the_ramp_of_the_fixture(kind):
    rollout = RolloutConfig(
        truncation="soft_penalty",
        overlong_max_tokens=RAMP.input["L_max"],
        overlong_buffer_tokens=RAMP.input["L_cache"],
    )
    assert_ramps(build_objective(config_of(kind), rollout))
