"""The policy against itself with a demonstration in view."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.groups import UNSCORED
from rollwright.algorithms.credit.self_distillation import reinforce_surprises, self_teacher_gap, surprises
from rollwright.algorithms.errors import ObjectiveError
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def rows(rewards, proximal, informed):
    inputs = credit_inputs(rewards, lengths=[2] * len(rewards))
    scores = {"proximal": torch.tensor(proximal), "informed": torch.tensor(informed)}
    return replace(inputs, logprobs={name: values.to(torch.float64) for name, values in scores.items()})


def test_the_informed_policy_teaches_the_uninformed_one():
    worked = method_fixture("M27.a")
    inputs = rows([1.0], worked.input["student_logp"], worked.input["selfteacher_logp"])
    assert self_teacher_gap(inputs).advantages.tolist() == worked.expect["opsd_A"]
    assert (0.1 * surprises(inputs)).tolist() == pytest.approx(worked.expect["rlrt_bonus"])


@pytest.mark.row("S190")
def test_a_bonus_is_for_successes_and_for_tokens_that_the_informed_policy_finds_less_likely():
    inputs = rows([1.0, 0.0], [-1.0, -3.0, -1.0, -3.0], [-2.0, -1.0, -2.0, -1.0])
    task = center_within_group(inputs).advantages
    added = reinforce_surprises(inputs, credit=center_within_group, bonus=0.1).advantages - task
    assert added.tolist() == pytest.approx([0.1, 0.0, 0.0, 0.0])


def test_what_counts_as_a_success_is_an_argument():
    inputs = rows([0.6, 0.0], [-1.0] * 4, [-2.0] * 4)
    assert not surprises(inputs).any()
    assert surprises(inputs, threshold=0.5).tolist() == [1.0, 1.0, 0.0, 0.0]


def test_a_level_success_is_trained_by_its_bonus_and_an_unscored_row_is_not():
    inputs = rows([1.0, 1.0, None], [-1.0] * 6, [-2.0, -2.0, -1.0, -1.0, -9.0, -9.0])
    credit = reinforce_surprises(inputs, credit=center_within_group, bonus=0.5)
    assert credit.advantages.tolist() == [0.5, 0.5, 0.0, 0.0, 0.0, 0.0]
    assert credit.untrained == {1: "zero_contrast", 2: UNSCORED}


def test_the_bonus_is_chosen_and_never_negative():
    inputs = rows([1.0, 0.0], [-1.0] * 4, [-2.0] * 4)
    reinforce = partial(reinforce_surprises, inputs, credit=center_within_group)
    with pytest.raises(ObjectiveError, match="RLRT did not disclose it"):
        reinforce()
    with pytest.raises(ObjectiveError, match="at least 0"):
        reinforce(bonus=-0.1)
