"""Baselines from a greedy attempt, from lengths, from each token, and a scale by informative groups."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError, center_within_group
from rollwright.algorithms.credit.greedy_baseline import subtract_greedy
from rollwright.algorithms.credit.groups import UNSCORED, ZERO_CONTRAST
from rollwright.algorithms.credit.informative import informative_scale, rescale_informative
from rollwright.algorithms.credit.length_weighted import length_weighted_baseline, length_weighted_means
from rollwright.algorithms.credit.optimal_token import optimal_token_baseline, score_norm_sums
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def with_greedy(inputs, greedy):
    return replace(inputs, values={"greedy_reward": torch.tensor(greedy, dtype=torch.float64)})


def with_scores(inputs, sampled, squared, behavior=None):
    streams = {"proximal": torch.tensor(sampled, dtype=torch.float64).log()}
    if behavior is not None:
        streams["behavior"] = torch.tensor(behavior, dtype=torch.float64).log()
    values = {"sum_squared_probabilities": torch.tensor(squared, dtype=torch.float64)}
    return replace(inputs, logprobs=streams, values=values)


def test_the_greedy_attempt_is_the_baseline_of_every_token():
    inputs = credit_inputs([0.0, 1.0], lengths=[3, 1], step_rewards=[0, 0.25, 1, 0])
    found = subtract_greedy(with_greedy(inputs, [0.5, 0.5]))
    assert found.advantages.tolist() == [0.75, 0.75, 0.5, 0.5]


def test_a_missing_greedy_attempt_gives_no_credit():
    inputs = with_greedy(credit_inputs([1.0, None, 1.0]), [float("nan"), 0.0, 0.0])
    credit = subtract_greedy(inputs)
    assert credit.advantages.tolist() == [0.0, 0.0, 1.0]
    assert credit.untrained == {0: ZERO_CONTRAST, 1: UNSCORED}
    with pytest.raises(ObjectiveError, match="greedy_reward"):
        subtract_greedy(credit_inputs([1.0]))
    with pytest.raises(ObjectiveError, match="needs \\(1,\\)"):
        subtract_greedy(with_greedy(credit_inputs([1.0]), [1.0, 2.0]))
    with pytest.raises(ObjectiveError, match="infinite greedy_reward"):
        subtract_greedy(with_greedy(credit_inputs([1.0]), [float("inf")]))


def test_the_length_weighted_baseline_is_zero_over_tokens_not_over_rows():
    fixture = method_fixture("M09.a")
    lengths = [int(length) for length in fixture.input["len"]]
    inputs = credit_inputs(fixture.input["R"], lengths=lengths)
    found = length_weighted_baseline(inputs).advantages
    assert float(found.sum()) == pytest.approx(0.0, abs=1e-12)
    assert found[[0, 2, 10]].tolist() == pytest.approx(fixture.expect["A"])
    assert sum(fixture.expect["A"]) != pytest.approx(0.0)
    assert length_weighted_means(inputs).tolist() == pytest.approx([fixture.expect["baseline"]] * 3)


def test_rows_without_tokens_leave_the_length_weighted_baseline_and_its_tests():
    inputs = credit_inputs([1.0, 0.0, 5.0], lengths=[1, 1, 0])
    assert length_weighted_baseline(inputs).advantages.tolist() == [0.5, -0.5]
    # With one row that has tokens there is nothing to be compared with, whatever an empty row got.
    lone = length_weighted_baseline(credit_inputs([1.0, 0.0], lengths=[2, 0]))
    assert lone.advantages.tolist() == [0.0, 0.0]
    assert lone.untrained == {0: ZERO_CONTRAST, 1: ZERO_CONTRAST}
    assert length_weighted_means(credit_inputs([1.0], lengths=[0])).isnan().all()
    assert length_weighted_baseline(credit_inputs([])).advantages.tolist() == []


@given(
    drawn=st.lists(
        st.tuples(st.floats(-10, 10) | st.none(), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=12
    )
)
def test_length_weighted_credit_sums_to_zero_over_the_tokens_of_a_group(drawn):
    rewards, groups, lengths = zip(*drawn, strict=True)
    inputs = credit_inputs(rewards, groups=groups, lengths=lengths)
    found = length_weighted_baseline(inputs).advantages
    of_token = inputs.group_index.repeat_interleave(inputs.row_offsets.diff())
    for group in set(groups):
        assert abs(float(found[of_token == group].sum())) < 1e-9


def test_the_optimal_token_baseline_by_hand():
    fixture = method_fixture("M10.a")
    flat = {name: [value for row in fixture.input[name] for value in row] for name in ("pi_sampled", "sum_pi_sq")}
    inputs = with_scores(credit_inputs(fixture.input["R"], lengths=[2, 2]), flat["pi_sampled"], flat["sum_pi_sq"])
    due = [value for row in fixture.expect["A"] for value in row]
    assert score_norm_sums(inputs).tolist() == pytest.approx([value for row in fixture.expect["W"] for value in row])
    assert optimal_token_baseline(inputs, eps=0.0).advantages.tolist() == pytest.approx(due)


def test_where_one_row_alone_goes_on_the_tail_is_an_option():
    inputs = with_scores(credit_inputs([1.0, 0.0], lengths=[3, 1]), [0.5] * 4, [0.5] * 4)
    assert optimal_token_baseline(inputs, eps=0.0).advantages.tolist() == [0.5, 1.0, 1.0, -0.5]
    assert optimal_token_baseline(inputs, eps=0.0, tail="own").advantages.tolist() == [0.5, 0.0, 0.0, -0.5]


def test_a_capped_ratio_weighs_the_score_norm_by_its_square():
    inputs = with_scores(credit_inputs([1.0, 0.0]), [0.5, 0.5], [0.5, 0.5], behavior=[0.25, 0.1])
    assert score_norm_sums(inputs, max_ratio=3.0).tolist() == pytest.approx([0.5 * 4.0, 0.5 * 9.0])
    found = optimal_token_baseline(inputs, eps=0.0, max_ratio=3.0).advantages
    assert found.tolist() == pytest.approx([1 - 4 / 13, -4 / 13])
    with pytest.raises(ObjectiveError, match="max_ratio is 0"):
        score_norm_sums(inputs, max_ratio=0.0)


def test_groups_do_not_meet_in_the_token_baseline():
    rewards, groups, lengths = [1.0, 0.0, 0.0, 1.0, 3.0], [5, 2, 5, 2, 2], [2, 3, 1, 1, 2]
    sampled = [0.5, 0.8, 0.9, 0.4, 0.2, 0.6, 0.7, 0.3, 0.5]
    squared = [0.6, 0.7, 0.9, 0.5, 0.4, 0.5, 0.6, 0.4, 0.5]
    together = with_scores(credit_inputs(rewards, groups=groups, lengths=lengths), sampled, squared)
    found = optimal_token_baseline(together, eps=0.0).advantages.split(lengths)
    for group in (2, 5):
        rows = [row for row, of in enumerate(groups) if of == group]
        places = [sum(lengths[:row]) + token for row in rows for token in range(lengths[row])]
        alone = with_scores(
            credit_inputs([rewards[row] for row in rows], lengths=[lengths[row] for row in rows]),
            [sampled[place] for place in places],
            [squared[place] for place in places],
        )
        due = optimal_token_baseline(alone, eps=0.0).advantages
        assert torch.cat([found[row] for row in rows]).tolist() == pytest.approx(due.tolist())


def test_groups_without_contrast_have_no_token_credit():
    level = with_scores(credit_inputs([1.0, 1.0], lengths=[1, 2]), [0.5] * 3, [0.5] * 3)
    assert optimal_token_baseline(level).advantages.tolist() == [0.0] * 3
    assert optimal_token_baseline(level).untrained == {0: ZERO_CONTRAST, 1: ZERO_CONTRAST}
    lone = with_scores(credit_inputs([1.0, None]), [0.5] * 2, [0.5] * 2)
    assert optimal_token_baseline(lone).untrained == {0: ZERO_CONTRAST, 1: UNSCORED}
    assert optimal_token_baseline(lone).advantages.tolist() == [0.0, 0.0]
    # Rewards on the way are contrast, even where the outcomes are level.
    paid = replace(level, step_rewards=torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64))
    assert optimal_token_baseline(paid).advantages.any()
    empty = with_scores(credit_inputs([]), [], [])
    assert optimal_token_baseline(empty).advantages.tolist() == []


def test_a_score_that_is_not_finite_adds_nothing_to_the_weights():
    inputs = with_scores(credit_inputs([1.0, 0.0], lengths=[2, 2]), [0.5, 0.5, 0.5, 0.5], [0.5, float("nan"), 0.5, 0.5])
    assert score_norm_sums(inputs).tolist() == pytest.approx([0.5, 0.5, 0.5, 1.0])
    assert optimal_token_baseline(inputs).advantages.isfinite().all()
    with pytest.raises(ObjectiveError, match="proximal log-probabilities"):
        optimal_token_baseline(credit_inputs([1.0, 0.0]))
    with pytest.raises(ObjectiveError, match="eps is -1"):
        optimal_token_baseline(inputs, eps=-1.0)


def test_the_scale_of_informative_groups_by_hand():
    fixture = method_fixture("M11.a")
    inputs = credit_inputs(fixture.input["R"], groups=fixture.input["group"])
    for counting in ("groups", "nonzero_reward"):
        assert informative_scale(inputs, counting=counting) == pytest.approx(fixture.expect[f"alpha_{counting}"])
        found = rescale_informative(inputs, counting=counting).advantages
        assert found.tolist() == pytest.approx(fixture.expect[f"A_{counting}"])
    assert rescale_informative(inputs, norm=2.0).advantages.tolist() == [0.5, -0.5, 0.0, 0.0]
    with pytest.raises(ObjectiveError, match="norm is 0"):
        rescale_informative(inputs, norm=0.0)


def test_the_mass_of_credit_does_not_shrink_with_level_groups():
    informative = credit_inputs([1, 0], groups=[0, 0])
    diluted = credit_inputs([1, 0, 1, 1, 0, 0, None], groups=[0, 0, 1, 1, 2, 2, 2])
    due = center_within_group(informative).advantages.abs().sum() / 2
    assert rescale_informative(diluted).advantages.abs().sum() / 6 == due
    assert informative_scale(credit_inputs([1, 1])) == 2.0
    assert informative_scale(credit_inputs([])) == 0.0
