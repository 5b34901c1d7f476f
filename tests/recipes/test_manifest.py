"""What the manifest says of a run before its first step."""

import pytest

from rollwright.recipes.build.manifest import eligible_rows
from rollwright.recipes.resolve import resolve

COMPONENTS = {
    "plain": ([], {"policy_gradient"}),
    "entropy": (["objective=magic"], {"policy_gradient", "entropy"}),
    "drift": (["objective=prime_rl"], {"policy_gradient", "drift"}),
    "successes": (["objective.positive_nll_coefficient=0.1"], {"policy_gradient", "positive_nll"}),
    "divergence in the loss": (["objective.kl_coefficient=0.1"], {"policy_gradient", "kl"}),
    "divergence in the reward": (
        ["objective.kl_coefficient=0.1", 'objective.kl_place="row_rewards"'],
        {"policy_gradient"},
    ),
    "imitation": (
        ["objective.credit=successes", "objective.surrogate=log_likelihood", "objective.ratio=none"],
        {"nll"},
    ),
}


@pytest.mark.parametrize(("settings", "components"), COMPONENTS.values(), ids=COMPONENTS)
def test_every_term_of_the_loss_is_listed_for_the_audit(settings, components):
    rows = eligible_rows(resolve("arithmetic-tool", settings).recipe)
    assert {row.component for row in rows if row.origin == "policy"} == components
    assert [(row.component, row.policy) for row in rows if row.origin == "demonstration"] == [("nll", None)]
