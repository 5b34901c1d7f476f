"""Credit in units of the spread of the whole step."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import (
    ObjectiveError,
    center_within_group,
    return_to_go,
)
from rollwright.algorithms.credit.groups import UNSCORED, ZERO_CONTRAST
from rollwright.algorithms.credit.whitening import (
    center_then_scale_by_batch,
    center_then_whiten_tokens,
    normalize_over_tokens,
    scale_advantages,
    whiten_advantages,
    whiten_over_batch,
)
from rollwright.algorithms.presets.table import PRESETS
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture

BY_BATCH = {
    "whiten_over_batch": whiten_over_batch,
    "center_then_whiten": center_then_whiten_tokens,
    "center_then_scale": center_then_scale_by_batch,
    "normalize_over_tokens": normalize_over_tokens,
    "whiten": partial(whiten_advantages, credit=center_within_group),
    "scale": partial(scale_advantages, credit=center_within_group),
}
by_batch = pytest.mark.parametrize("estimate", BY_BATCH.values(), ids=BY_BATCH.keys())


@pytest.mark.row("S151")
def test_batch_normalized_credit_has_mean_zero_and_deviation_one_over_the_batch_not_over_groups():
    rewards, groups, lengths = [1, 0, 0, 1, 1, 1, 0, 5], [0, 0, 0, 0, 1, 1, 1, 1], [1, 4, 2, 3, 5, 1, 1, 2]
    inputs = credit_inputs(rewards, groups=groups, lengths=lengths)
    found = PRESETS["reinforce_plus_plus"]().credit(inputs).advantages
    assert found.tolist() == whiten_over_batch(inputs).advantages.tolist()
    assert float(found.mean()) == pytest.approx(0.0, abs=1e-12)
    assert float(found.std(correction=1)) == pytest.approx(1.0)
    first = found[: sum(lengths[:4])]
    assert abs(float(first.mean())) > 0.1
    assert abs(float(first.std(correction=1)) - 1.0) > 0.1


def test_whitening_follows_the_return_of_each_token():
    fixture = method_fixture("M06.a")
    # The third token of the second row is an observation: it is no action token, so it is not here.
    inputs = credit_inputs([0.0, 0.0], lengths=[3, 2], step_rewards=[0.0, 0.0, 1.0, 0.0, 0.5])
    due = [*fixture.expect["A"][0], *fixture.expect["A"][1][:2]]
    assert whiten_over_batch(inputs).advantages.tolist() == pytest.approx(due, abs=1e-9)
    discounted = whiten_over_batch(inputs, discount=0.5).advantages
    assert discounted[:3].tolist() == sorted(discounted[:3].tolist())


def test_groups_without_contrast_are_left_out_unless_asked_for():
    inputs = credit_inputs([1, 0, 1, 1], groups=[0, 0, 1, 1], lengths=[1, 3, 2, 2])
    left = center_then_whiten_tokens(inputs)
    assert left.advantages[4:].tolist() == [0.0] * 4
    assert left.untrained == {2: ZERO_CONTRAST, 3: ZERO_CONTRAST}
    counted = center_then_whiten_tokens(inputs, level_groups="whiten")
    assert counted.advantages[4:].tolist() == pytest.approx([method_fixture("M07.a").expect["A_row"][2]] * 4)
    assert counted.untrained == {}


def test_rows_without_contrast_count_in_the_batch_deviation_and_an_episode_once():
    due = method_fixture("M07.b").expect["A_row"]
    inputs = credit_inputs([1, 0, 1, 1], groups=[0, 0, 1, 1])
    assert center_then_scale_by_batch(inputs).advantages.tolist() == pytest.approx(due)
    split = credit_inputs([1, 1, 1, 0, 1, 1], groups=[0, 0, 0, 0, 1, 1], episodes=[0, 0, 0, 1, 2, 3])
    assert center_then_scale_by_batch(split).advantages.tolist() == pytest.approx(
        [due[0], *due[:1], *due[:1], *due[1:]]
    )
    alone = center_then_scale_by_batch(inputs, ddof=1, eps=0.0).advantages
    assert float(alone[0]) == pytest.approx(0.5 / (0.5 / 3) ** 0.5)


@by_batch
def test_one_reward_level_gives_exactly_zero_and_a_reason(estimate):
    inputs = credit_inputs([0.1 + 0.2, 0.3, 0.3, 0.15 + 0.15], groups=[0, 0, 1, 1], lengths=[1, 2, 3, 4])
    credit = estimate(inputs)
    assert credit.advantages.tolist() == [0.0] * 10
    assert credit.untrained == dict.fromkeys(range(4), ZERO_CONTRAST)


@by_batch
def test_unscored_rows_change_no_number(estimate):
    with_them = credit_inputs([1, None, 0, 1, None], groups=[0, 0, 0, 1, 1], lengths=[2, 5, 1, 2, 1])
    without = credit_inputs([1, 0, 1], groups=[0, 0, 1], lengths=[2, 1, 2])
    credit = estimate(with_them)
    kept = torch.tensor([True] * 2 + [False] * 5 + [True] * 3 + [False])
    assert credit.advantages[kept].tolist() == pytest.approx(estimate(without).advantages.tolist())
    assert credit.advantages[~kept].tolist() == [0.0] * 6
    assert {row for row, reason in credit.untrained.items() if reason == UNSCORED} == {1, 4}


@by_batch
@pytest.mark.parametrize("rewards", [[], [None], [1.0]], ids=["empty", "unscored", "one"])
def test_small_batches_have_a_defined_result(estimate, rewards):
    credit = estimate(credit_inputs(rewards))
    assert credit.advantages.tolist() == [0.0] * len(rewards)
    assert set(credit.untrained) == set(range(len(rewards)))


def test_rows_without_tokens_stand_in_no_token_statistic():
    inputs = credit_inputs([1, 0, 9], lengths=[2, 2, 0])
    due = whiten_over_batch(credit_inputs([1, 0], lengths=[2, 2])).advantages
    assert whiten_over_batch(inputs).advantages.tolist() == due.tolist()


def test_scaling_keeps_the_mean_and_whitening_keeps_the_targets():
    inputs = credit_inputs([2.0, 6.0])
    given = replace(return_to_go(inputs), value_targets=torch.tensor([2.0, 6.0]))
    scaled = scale_advantages(inputs, credit=lambda _: given, eps=0.0)
    assert scaled.advantages.tolist() == [1.0, 3.0]
    assert scaled.value_targets is given.value_targets
    whitened = whiten_advantages(inputs, credit=lambda _: given, ddof=0, eps=0.0)
    assert whitened.advantages.tolist() == [-1.0, 1.0]
    assert whitened.value_targets is given.value_targets


@given(
    drawn=st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=10),
    factor=st.sampled_from([0.5, 2.0, 100.0]),
)
def test_the_scale_of_rewards_does_not_matter(drawn, factor):
    rewards, groups, lengths = zip(*drawn, strict=True)
    straight = credit_inputs(rewards, groups=groups, lengths=lengths)
    scaled = replace(straight, rewards=straight.rewards * factor)
    for estimate in (
        partial(whiten_over_batch, eps=0.0),
        partial(center_then_whiten_tokens, eps=0.0),
        partial(center_then_scale_by_batch, eps=0.0),
        partial(normalize_over_tokens, eps=0.0),
    ):
        assert torch.allclose(estimate(straight).advantages, estimate(scaled).advantages, atol=1e-9)


def test_bad_options_are_refused():
    with pytest.raises(ObjectiveError, match="ddof is 3"):
        center_then_scale_by_batch(credit_inputs([1, 0]), ddof=3)
    with pytest.raises(ObjectiveError, match="ddof is 3"):
        whiten_over_batch(credit_inputs([1, 0]), ddof=3)
    with pytest.raises(ObjectiveError, match="eps is -1"):
        normalize_over_tokens(credit_inputs([1, 0]), eps=-1.0)
