"""Groups that all passed or all failed: what token entropy says of them."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from rollwright.algorithms import TokenMean, score_function
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.groups import UNSCORED, ZERO_CONTRAST
from rollwright.algorithms.credit.level_groups import learn_from_level_groups
from rollwright.algorithms.credit.standardized import standardize_within_group
from rollwright.algorithms.credit.truncation import TRUNCATED, mask_truncated
from rollwright.algorithms.errors import ObjectiveError
from tests.algorithms.pieces import Batch, credit_inputs, gradient_of, pack, weights_of
from tests.cases import method_fixtures

ENTROPY = [0.5, 2.0, 1.0]


def rows(rewards, *, groups=None, truncated=None, entropy=None):
    inputs = credit_inputs(rewards, groups=groups, lengths=[3] * len(rewards), truncated=truncated)
    flat = torch.tensor(entropy or ENTROPY * len(rewards), dtype=torch.float64)
    return replace(inputs, values={"entropy": flat})


zero_variance = partial(learn_from_level_groups, credit=standardize_within_group, alpha=0.1)


@pytest.mark.parametrize("worked", method_fixtures("M21"), ids=lambda one: one.id)
def test_it_matches_the_worked_numbers(worked):
    credit = zero_variance(rows(worked.input["R_group"]))
    assert credit.advantages[:3].tolist() == pytest.approx(worked.expect["A"], abs=worked.tol)
    assert credit.untrained == {}


@pytest.mark.row("S189")
def test_a_group_that_passed_has_an_update():
    inputs = rows([1.0, 1.0])
    objective = score_function("rl_zvp", credit=zero_variance, weights=TokenMean())
    batch = Batch(inputs=inputs, logprobs={"current": torch.full((6,), -1.0, dtype=torch.float64)})
    packed = pack(objective, batch, range(2), weights=weights_of(objective, batch))
    _, gradient = gradient_of(objective, batch, [packed])
    assert (gradient < 0).all()
    plain = score_function("grpo", credit=standardize_within_group, weights=TokenMean())
    packed = pack(plain, batch, range(2), weights=weights_of(plain, batch))
    assert not gradient_of(plain, batch, [packed])[1].any()


def test_a_mixed_group_has_the_given_credit():
    inputs = rows([1.0, 0.0, 1.0, 1.0], groups=[0, 0, 1, 1])
    expected = standardize_within_group(inputs).advantages
    found = zero_variance(inputs)
    assert found.advantages[:6].equal(expected[:6])
    assert found.advantages[6:].tolist() == pytest.approx([0.05, 0.2, 0.1] * 2)


def test_a_success_is_pushed_up_and_a_failure_down_and_the_surest_tokens_of_it_most():
    found = zero_variance(rows([1.0, 1.0, 0.0, 0.0], groups=[0, 0, 1, 1])).advantages
    assert (found[:6] > 0).all() and (found[6:] <= 0).all()
    assert found[6:9].argmin() == torch.tensor(ENTROPY).argmin()
    assert found[:3].argmax() == torch.tensor(ENTROPY).argmax()


def test_a_failure_of_even_entropy_still_has_no_contrast():
    found = zero_variance(rows([0.0, 0.0], entropy=[1.0] * 6))
    assert not found.advantages.any()
    assert found.untrained == {0: ZERO_CONTRAST, 1: ZERO_CONTRAST}


def test_a_group_of_one_unscored_and_truncated_rows_stay_out():
    found = zero_variance(rows([1.0, None], groups=[0, 1]))
    assert not found.advantages.any()
    assert found.untrained == {0: ZERO_CONTRAST, 1: UNSCORED}
    masked = partial(mask_truncated, credit=standardize_within_group)
    found = learn_from_level_groups(rows([1.0, 1.0], truncated=[0, 1]), credit=masked, alpha=0.1)
    assert found.advantages.tolist() == pytest.approx([0.05, 0.2, 0.1, 0.0, 0.0, 0.0])
    assert found.untrained == {1: TRUNCATED}


def test_a_level_reward_that_is_neither_pass_nor_fail_is_refused():
    with pytest.raises(ObjectiveError, match=r"rows \[0, 1\] are in groups that are level at a reward other than 0 or"):
        zero_variance(rows([0.3, 0.3]))
    with pytest.raises(ObjectiveError, match=r"RL-ZVP \(one a model\) did not disclose it"):
        learn_from_level_groups(rows([1.0, 1.0]), credit=center_within_group)
    with pytest.raises(ObjectiveError, match="above 0"):
        learn_from_level_groups(rows([1.0, 1.0]), credit=center_within_group, alpha=0.0)
