"""A key that does not exist is refused with the one that was most likely meant."""

import pytest
from pydantic import ValidationError

from rollwright.recipes.aliases import OTHER_NAMES
from rollwright.recipes.config import RecipeConfig
from rollwright.recipes.config.strict import StrictConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.keys import dotted_keys, fields_at, nearest_key
from rollwright.recipes.resolve import resolve
from rollwright.recipes.sentences import problems_of
from tests.cases import case


class Train(StrictConfig):
    """The keys of case F111."""

    learning_rate: float = 1e-3
    clip_low: float = 0.2
    clip_high: float = 0.2


class Root(StrictConfig):
    """Of case F111."""

    train: Train = Train()


@pytest.mark.case("F111")
def test_unknown_keys_are_told_at_once_each_with_the_nearest_right_one():
    with pytest.raises(ValidationError) as caught:
        Root.model_validate(case("F111").input["given"])
    assert list(dotted_keys(Root)) == case("F111").input["known"]
    told = problems_of(caught.value, Root, lambda key: "")
    expected = [f"unknown key {line.replace(': ', '; ')}?" for line in case("F111").expect["errors"]]
    assert sorted(told) == sorted(expected)


@pytest.mark.case("F111")
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("learning_rate", "learner.learning_rate"),
        ("run.learning_rate", "learner.learning_rate"),
        ("learnr.learning_rate", "learner.learning_rate"),
        ("learner.learning-rate", "learner.learning_rate"),
        ("learner.LearningRate", "learner.learning_rate"),
        ("learner.learning_rte", "learner.learning_rate"),
        ("lr", "learner.learning_rate"),
        ("learner.lr", "learner.learning_rate"),
        ("stages.0.lr", "stages.0.learning_rate"),
        ("stages.0.learing_rate", "stages.0.learning_rate"),
        ("actor_rollout_ref.rollout.n", "rollout.group_size"),
        ("rollout.num_generations", "rollout.group_size"),
        ("kl_coef", "objective.kl_coefficient"),
        ("algorithm.kl_ctl", "objective.kl_coefficient"),
        ("objective.clip_ratio_high", "objective.surrogate.clip_high"),
        ("eps_clip", "objective.surrogate.clip_low"),
        ("loss_agg_mode", "objective.denominator"),
        ("max_head_offpolicyness", "runtime.max_lag"),
        ("objective.max_lag", "runtime.max_lag"),
        ("max_completion_length", "rollout.max_turn_tokens"),
        ("mbt", "learner.micro_batch_tokens"),
        ("model.num_hidden_layers", "model.num_layers"),
        ("verifier.parts.1.wieght", "verifier.parts.1.weight"),
    ],
)
def test_misplaced_abbreviated_and_foreign_names_lead_to_ours(wrong, right):
    assert nearest_key(RecipeConfig, wrong) == right


def test_a_name_like_no_other_has_no_nearest_one():
    assert nearest_key(RecipeConfig, "zzzzzzzz") is None


def test_a_key_of_another_kind_is_told_as_such():
    with pytest.raises(
        RecipeError,
        match=r"surrogate of kind policy_gradient has no clip_low; kinds clip, dual_clip, .* and earl have it",
    ):
        resolve("arithmetic-tool", ["objective=rloo", "objective.surrogate.clip_low=0.1"])


def test_every_key_that_others_call_differently_exists_and_is_called_so_once():
    assert set(OTHER_NAMES) <= {*dotted_keys(RecipeConfig)}
    others = [name for names in OTHER_NAMES.values() for name in names]
    assert len(set(others)) == len(others)
    assert all(name == name.lower() and "-" not in name for name in others)


def test_no_key_of_ours_in_the_same_section_is_taken_for_another_systems_name():
    for ours, others in OTHER_NAMES.items():
        section = ours.partition(".")[0]
        assert not {f"{section}.{name}" for name in others} & set(dotted_keys(RecipeConfig)), ours


def test_every_key_is_its_own_nearest():
    for key in dotted_keys(RecipeConfig):
        written = key.replace("*", "0")
        assert nearest_key(RecipeConfig, written) == written


def test_every_key_leads_to_a_field():
    for key in dotted_keys(RecipeConfig):
        assert fields_at(RecipeConfig, key.split(".")), key
    assert fields_at(RecipeConfig, ("learner", "lr")) == ()
