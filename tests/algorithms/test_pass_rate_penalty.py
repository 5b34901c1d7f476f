"""Length penalties that grow with the pass rate."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from rollwright.algorithms import ObjectiveError, center_within_group, imitate
from rollwright.algorithms.regularizers.pass_rate_penalty import (
    linear_length_penalty,
    linear_penalties,
    pass_rate_length_penalty,
    pass_rates,
    turns_of_rows,
)
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def shaped_by(stage, inputs):
    seen = []
    stage(inputs, credit=lambda shaped: seen.append(shaped) or imitate(shaped))
    return seen[0].rewards.tolist()


def test_it_matches_the_worked_numbers():
    fixture = method_fixture("M90.a")
    inputs = credit_inputs(fixture.input["R"], lengths=fixture.input["len"])
    stage = partial(pass_rate_length_penalty, max_tokens=fixture.input["l_max"], weight=fixture.input["w_len"])
    assert pass_rates(inputs).tolist() == pytest.approx([fixture.input["pass_rate"]] * 3)
    assert shaped_by(stage, inputs) == pytest.approx(fixture.expect["R_out"])


def test_the_linear_form_matches_the_worked_numbers():
    fixture = method_fixture("M90.b")
    inputs = credit_inputs(fixture.input["R"], lengths=[int(one) for one in fixture.input["output_tokens"]])
    turns = torch.repeat_interleave(
        torch.cat([torch.arange(int(count)) for count in fixture.input["turns"]]),
        torch.tensor([50, 50, 75, 75, 75, 75]),
    )
    inputs = replace(inputs, turn_index=turns)
    assert turns_of_rows(inputs).tolist() == fixture.input["turns"]
    stage = partial(
        linear_length_penalty,
        output_weight=fixture.input["w_out"],
        input_weight=fixture.input["w_in"],
        turns_weight=fixture.input["w_turns"],
    )
    rewards = shaped_by(stage, inputs)
    assert (inputs.rewards - torch.tensor(rewards)).tolist() == pytest.approx(fixture.expect["penalty"])
    found = stage(inputs, credit=center_within_group).advantages
    assert [float(found[0]), float(found[-1])] == pytest.approx(fixture.expect["A"])


def test_hard_tasks_keep_their_room():
    inputs = credit_inputs([1, 1, 1, 0], groups=[0, 0, 1, 1], lengths=[50, 50, 50, 50])
    stage = partial(pass_rate_length_penalty, max_tokens=100, weight=1.0)
    assert shaped_by(stage, inputs) == [0.5, 0.5, 0.75, -0.25]


def test_an_episode_of_two_rows_passes_once():
    inputs = credit_inputs([1, 1, 0], episodes=[0, 0, 1])
    assert pass_rates(inputs).tolist() == [0.5, 0.5, 0.5]


def test_an_unscored_row_leaves_the_pass_rate_and_stays_unscored():
    inputs = credit_inputs([1, None])
    assert pass_rates(inputs).tolist() == [1.0, 1.0]
    found = pass_rate_length_penalty(inputs, credit=center_within_group, max_tokens=10)
    assert found.untrained == {0: "zero_contrast", 1: "unscored"}
    assert pass_rates(credit_inputs([None])).tolist() == [0.0]


def test_a_measure_of_nothing_costs_nothing():
    inputs = credit_inputs([1, 0])
    assert linear_penalties(inputs, [(1.0, torch.zeros(2))]).tolist() == [0.0, 0.0]


def test_turns_are_counted_in_each_row():
    inputs = replace(credit_inputs([1, 1, 1], lengths=[4, 0, 2]), turn_index=torch.tensor([0, 0, 1, 3, 3, 3]))
    assert turns_of_rows(inputs).tolist() == [3, 0, 1]


def test_what_is_missing_or_impossible_is_said():
    with pytest.raises(ObjectiveError, match="`input_tokens` values"):
        linear_length_penalty(credit_inputs([1, 0]), credit=imitate)
    with pytest.raises(ObjectiveError, match="longest length is 0"):
        pass_rate_length_penalty(credit_inputs([1, 0]), credit=imitate, max_tokens=0)
