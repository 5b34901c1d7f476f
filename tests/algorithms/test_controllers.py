"""Controllers and memories of an objective: found in any part, followed, saved and restored."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from rollwright.algorithms import Clip, ObjectiveError, TokenMean, grpo, kl_k2, mask_truncated, punish_truncated
from rollwright.algorithms.controllers import (
    advance_memories,
    coefficients_of,
    controllers_of,
    memories_of,
    restore_states,
    states_of,
)
from rollwright.algorithms.credit.kl_in_reward import kl_in_reward
from rollwright.algorithms.credit.return_to_go import return_to_go
from rollwright.algorithms.credit.running_baseline import RunningBaseline
from rollwright.algorithms.objective import Regularizer
from rollwright.algorithms.regularizers.adaptive_kl import AdaptiveKl
from rollwright.algorithms.regularizers.annealing import LinearAnneal
from rollwright.algorithms.regularizers.entropy_bonus import entropy_regularizer
from rollwright.algorithms.regularizers.magic_entropy import MagicEntropy
from tests.algorithms.pieces import credit_inputs


def adaptive(**changes):
    return replace(AdaptiveKl(initial=0.2, target=6.0, num_rows=256), **changes)


def with_controllers():
    """A composition with one controller in its credit, one in its clip and two in its regularizers."""
    shared = adaptive()
    return replace(
        grpo(clip=Clip(high=LinearAnneal(start=1.2, end=1.4, over=4))),
        credit=partial(mask_truncated, credit=partial(kl_in_reward, credit=return_to_go, coefficient=shared)),
        regularizers=(
            Regularizer(component="kl", coefficient=shared, per_token=kl_k2, weights=TokenMean()),
            entropy_regularizer(MagicEntropy()),
        ),
    )


def test_controllers_are_found_once_in_credit_surrogate_and_regularizers():
    found = controllers_of(with_controllers())
    assert list(found) == ["credit.credit.coefficient", "surrogate.high", "entropy"]
    assert [type(one) for one in found.values()] == [AdaptiveKl, LinearAnneal, MagicEntropy]


def test_an_objective_of_numbers_has_no_controller():
    assert controllers_of(grpo()) == {} and memories_of(grpo()) == {} and states_of(grpo()) == ()


def test_the_coefficients_in_effect_are_those_of_all_terms_and_all_controllers():
    objective = with_controllers()
    constant = Regularizer(component="drift", coefficient=1e-3, per_token=kl_k2, weights=TokenMean())
    objective = replace(objective, regularizers=(*objective.regularizers, constant))
    assert coefficients_of(objective) == {
        "kl": 0.2,
        "entropy": 0.0,
        "drift": 1e-3,
        "credit.credit.coefficient": 0.2,
        "surrogate.high": 1.2,
    }


def test_states_go_on_in_a_fresh_objective():
    first, second = with_controllers(), with_controllers()
    for metrics in ({"policy/kl_ref": 12.0, "entropy/full": 0.1}, {"policy/kl_ref": 3.0, "entropy/full": 0.15}):
        for controller in controllers_of(first).values():
            controller.observe(metrics)
    restore_states(second, states_of(first))
    assert coefficients_of(second) == coefficients_of(first) != coefficients_of(with_controllers())
    assert states_of(second) == states_of(first)


def test_states_of_another_objective_are_refused():
    with pytest.raises(ObjectiveError, match="carries 3 parts .*but 1 states were given"):
        restore_states(with_controllers(), ({"coefficient": 1.0},))


def test_a_controller_that_follows_a_metric_that_nobody_logs_says_so():
    with pytest.raises(ObjectiveError, match="follows the metric 'policy/kl_ref', which no update has"):
        adaptive().observe({"entropy/full": 0.2})


def test_a_linear_coefficient_stops_at_its_end_and_goes_on_from_its_state():
    anneal = LinearAnneal(start=2.0, end=1.0, over=4)
    seen = []
    for _ in range(6):
        seen.append(anneal.value())
        anneal.observe({})
    assert seen == [2.0, 1.75, 1.5, 1.25, 1.0, 1.0]
    again = LinearAnneal(start=2.0, end=1.0, over=4)
    again.restore({"updates": 3.0})
    assert again.value() == 1.25
    with pytest.raises(ObjectiveError, match="over 0 updates"):
        LinearAnneal(start=2.0, end=1.0, over=0)


def test_a_memory_takes_in_what_its_stage_hands_it():
    # The truncated row counts as 0 for the credit, and so it does for the baseline that follows.
    inputs = credit_inputs([1.0, 1.0], truncated=[0, 1])
    memory = RunningBaseline(decay=0.5)
    objective = replace(grpo(), credit=partial(punish_truncated, credit=memory))
    assert list(memories_of(objective)) == ["credit.credit"]
    before = objective.credit(inputs).advantages.tolist()
    assert objective.credit(inputs).advantages.tolist() == before == [1.0, -0.5]
    advance_memories(objective, inputs)
    (state,) = states_of(objective)
    assert list(state.values()) == [0.25]  # 0 → 0.5 → 0.25
    assert objective.credit(inputs).advantages.tolist() == [0.75, -0.625]


def test_a_memory_goes_on_from_its_state():
    inputs = credit_inputs([1.0, 0.0])
    first, second = (replace(grpo(), credit=RunningBaseline(decay=0.5)) for _ in range(2))
    advance_memories(first, inputs)
    restore_states(second, states_of(first))
    assert torch.equal(first.credit(inputs).advantages, second.credit(inputs).advantages)


def test_a_memory_that_no_stage_calls_is_an_error():
    def deaf(inputs, *, inner):
        return return_to_go(inputs)

    objective = replace(grpo(), credit=partial(deaf, inner=RunningBaseline()))
    with pytest.raises(ObjectiveError, match="holds a memory that its stages never call"):
        advance_memories(objective, credit_inputs([1.0]))
