"""Length control relative to the group."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from rollwright.algorithms import ObjectiveError, center_within_group, imitate
from rollwright.algorithms.regularizers.group_length import (
    centered_shortness,
    group_length_reward,
    shortest_of_the_best,
    shortness,
)
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def tokens(*lengths):
    return torch.tensor(lengths, dtype=torch.float64)


def shaped_by(inputs, **settings):
    """The rewards that the stage hands on."""
    seen = []

    def watch(shaped):
        seen.append(shaped.rewards)
        return imitate(shaped)

    group_length_reward(inputs, credit=watch, **settings)
    return seen[0].tolist()


@pytest.mark.row("S373")
def test_shortness_matches_the_worked_numbers():
    fixture = method_fixture("M88.a")
    inputs = replace(credit_inputs(fixture.input["R"]), values={"thinking_tokens": tokens(*fixture.input["think_len"])})
    lengths = inputs.values["thinking_tokens"]
    assert shortness(lengths, inputs).tolist() == pytest.approx(fixture.expect["w"])
    assert centered_shortness(lengths, inputs).tolist() == pytest.approx(fixture.expect["w_centred"])
    found = shaped_by(inputs, thinking=fixture.input["lambda"], answer=0.0, bonus=0.0)
    assert found == pytest.approx(fixture.expect["R_out"])


@pytest.mark.row("S373")
def test_groups_do_not_meet_and_the_shift_is_centred_in_each():
    inputs = credit_inputs([1, 1, 0, 1, 0], groups=[0, 0, 1, 1, 1])
    found = centered_shortness(tokens(10, 30, 500, 100, 300), inputs)
    assert found[:2].sum() == pytest.approx(0) and found[2:].sum() == pytest.approx(0)
    assert found.tolist() == pytest.approx([0.5, -0.5, -0.5, 0.5, 0.0])


def test_one_length_moves_nothing():
    assert not centered_shortness(tokens(7, 7, 7), credit_inputs([1, 0, 1])).any()


def test_an_unscored_row_is_compared_with_nobody():
    inputs = credit_inputs([1, None, 0])
    assert centered_shortness(tokens(10, 1000, 20), inputs).tolist() == pytest.approx([0.5, 0.0, -0.5])
    credit = partial(group_length_reward, credit=center_within_group, thinking=0.5, answer=0.0, bonus=0.0)
    found = credit(replace(inputs, values={"thinking_tokens": tokens(10, 1000, 20)}))
    assert found.untrained == {1: "unscored"} and float(found.advantages[1]) == 0.0


def test_the_shortest_of_the_best_has_the_bonus():
    inputs = credit_inputs([1, 1, 1, 0, 0], lengths=[5, 2, 9, 1, 1])
    assert shortest_of_the_best(inputs, percentile=80.0).tolist() == [0, 1, 0, 0, 0]
    found = shaped_by(inputs, thinking=0.0, answer=0.0)
    assert found == [1.0, 1.5, 1.0, 0.0, 0.0]


def test_answer_and_thinking_have_weights_of_their_own():
    inputs = replace(credit_inputs([0, 0]), values={"thinking_tokens": tokens(10, 20), "answer_tokens": tokens(8, 4)})
    assert shaped_by(inputs, thinking=0.5, answer=0.25, bonus=0.0) == pytest.approx([0.125, -0.125])


def test_lengths_of_another_number_of_rows_are_refused():
    with pytest.raises(ObjectiveError, match=r"shape \(2,\) for 3 rows"):
        shortness(tokens(1, 2), credit_inputs([1, 0, 1]))
    with pytest.raises(ObjectiveError, match="`thinking_tokens` values"):
        group_length_reward(credit_inputs([1, 0]), credit=imitate)
