"""Segments of a compacted episode: one outcome, and how far each stands from it."""

from dataclasses import replace

import pytest
import torch

from rollwright.algorithms.credit.compaction import compaction_advantage
from rollwright.algorithms.credit.generalized_advantage import LengthAdaptive, generalized_advantage
from rollwright.algorithms.credit.groups import UNSCORED
from rollwright.algorithms.errors import ObjectiveError
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def segments(values, rewards, *, episodes, truncated=None, bootstrap=None):
    """One row of action tokens a segment, with the critic's values; the summary's tokens are among them."""
    lengths = [len(row) for row in values]
    inputs = credit_inputs(rewards, lengths=lengths, episodes=episodes, truncated=truncated)
    flat = [value for row in values for value in row]
    return replace(
        inputs,
        values={
            "predicted": torch.tensor(flat, dtype=torch.float64),
            "bootstrap": torch.tensor(bootstrap or [0.0] * len(values), dtype=torch.float64),
        },
    )


def test_an_earlier_segment_is_scaled_by_its_distance_from_the_end():
    worked = method_fixture("M22.a")
    inputs = segments([[0.5, 0.6], [0.7]], [1.0, 1.0], episodes=[3, 3])
    credit = compaction_advantage(inputs, policy_lambda=0.9)
    expected = [value for row in worked.expect["A"] for value in row]
    assert credit.advantages.tolist() == pytest.approx(expected, abs=worked.tol)
    assert credit.value_targets is not None
    assert credit.value_targets.tolist() == pytest.approx([1.0, 1.0, 1.0])


@pytest.mark.row("S293")
def test_the_value_of_the_next_segment_may_follow_a_compaction():
    inputs = segments([[0.5, 0.6], [0.7]], [1.0, 1.0], episodes=[3, 3])
    credit = compaction_advantage(inputs, policy_lambda=0.9, boundary="value")
    # The last token before the compaction, the summary's, is worth V of the next segment minus its own: 0.1 + 0.9·0.3.
    assert credit.advantages.tolist() == pytest.approx([0.1 + 0.9 * (0.1 + 0.9 * 0.3), 0.1 + 0.9 * 0.3, 0.3])
    # It is GAE of the episode as one row.
    whole = segments([[0.5, 0.6, 0.7]], [1.0], episodes=[3])
    one_row = generalized_advantage(whole, policy_lambda=0.9)
    torch.testing.assert_close(credit.advantages, one_row.advantages)
    torch.testing.assert_close(credit.value_targets, one_row.value_targets)


def test_an_episode_of_one_segment_is_plain_gae_in_both_forms():
    inputs = segments([[0.5, 0.6], [0.7]], [1.0, 0.0], episodes=[0, 1])
    expected = generalized_advantage(inputs, policy_lambda=0.9, truncation="terminal")
    for boundary in ("outcome", "value"):
        found = compaction_advantage(inputs, policy_lambda=0.9, boundary=boundary)
        torch.testing.assert_close(found.advantages, expected.advantages)
        torch.testing.assert_close(found.value_targets, expected.value_targets)


def test_only_the_last_row_of_a_truncated_episode_is_censored():
    inputs = segments([[0.5], [0.7]], [0.0, 0.0], episodes=[0, 0], truncated=[1, 1], bootstrap=[9.0, 0.8])
    found = compaction_advantage(inputs, policy_lambda=1.0, truncation="bootstrap").advantages
    assert found.tolist() == pytest.approx([-0.5, 0.1])
    joined = compaction_advantage(inputs, policy_lambda=1.0, truncation="bootstrap", boundary="value").advantages
    assert joined.tolist() == pytest.approx([0.3, 0.1])
    assert compaction_advantage(inputs, policy_lambda=1.0).advantages.tolist() == pytest.approx([-0.5, -0.7])


def test_an_unscored_episode_leaves_with_all_its_rows():
    inputs = segments([[0.5], [0.7], [0.1]], [None, None, 1.0], episodes=[0, 0, 1])
    for boundary in ("outcome", "value"):
        credit = compaction_advantage(inputs, policy_lambda=1.0, boundary=boundary)
        assert credit.advantages.tolist() == pytest.approx([0.0, 0.0, 0.9])
        assert credit.untrained == {0: UNSCORED, 1: UNSCORED}


def test_a_segment_without_action_tokens_stands_nowhere():
    inputs = segments([[0.5], [], [0.7]], [1.0, 1.0, 1.0], episodes=[0, 0, 0])
    without = segments([[0.5], [0.7]], [1.0, 1.0], episodes=[0, 0])
    for boundary in ("outcome", "value"):
        found = compaction_advantage(inputs, policy_lambda=0.9, boundary=boundary).advantages
        expected = compaction_advantage(without, policy_lambda=0.9, boundary=boundary).advantages
        torch.testing.assert_close(found, expected)


def test_what_the_length_counts_is_not_disclosed():
    inputs = segments([[0.5, 0.6], [0.7]], [1.0, 1.0], episodes=[0, 0])
    with pytest.raises(ObjectiveError, match="over has no default: CompactionRL did not disclose it"):
        compaction_advantage(inputs, policy_lambda=LengthAdaptive(alpha=1.5))
    by_row = compaction_advantage(inputs, policy_lambda=LengthAdaptive(alpha=1.5, over="row")).advantages
    decay = 1 - 1 / 3.0
    assert by_row[1] == pytest.approx(decay * 0.4)
    by_episode = compaction_advantage(inputs, policy_lambda=LengthAdaptive(alpha=1.5, over="episode")).advantages
    assert by_episode[1] == pytest.approx((1 - 1 / 4.5) * 0.4)


def test_segments_of_an_episode_stand_together():
    inputs = segments([[0.5], [0.6], [0.7]], [1.0, 0.0, 1.0], episodes=[0, 1, 0])
    with pytest.raises(ObjectiveError, match="together, in order of time"):
        compaction_advantage(inputs, policy_lambda=1.0)
    with pytest.raises(ObjectiveError, match="'outcome' or 'value'"):
        compaction_advantage(inputs, policy_lambda=1.0, boundary="none")  # type: ignore[arg-type]  # a wrong choice
