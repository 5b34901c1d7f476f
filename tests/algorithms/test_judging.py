"""Arithmetic around a judge (M117)."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.rewards.judging import both_orders, circular_pairs, circular_scores, judge_reward, num_pairs

chances = st.floats(0, 1)


@given(chances, chances)
def test_the_average_of_both_orders_is_the_same_whichever_candidate_is_called_a(first, second):
    ab = both_orders(torch.tensor([first]), torch.tensor([second]))
    ba = both_orders(torch.tensor([second]), torch.tensor([first]))
    assert float(ab.first_wins + ba.first_wins) == pytest.approx(1)
    assert float(ab.position_gap) == pytest.approx(float(ba.position_gap))
    assert 0 <= float(ab.first_wins) <= 1


def test_a_judge_that_always_takes_the_first_place_says_nothing():
    orders = both_orders(torch.ones(1), torch.ones(1))
    assert float(orders.first_wins) == 0.5
    assert float(orders.position_gap) == 1


@pytest.mark.row("S371")
def test_sixteen_candidates_are_ranked_by_sixteen_calls_instead_of_120():
    strength = torch.linspace(0, 3, 16, dtype=torch.float64)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    shuffled = strength[order]
    pairs = circular_pairs(16)
    assert (len(pairs), num_pairs(16)) == (16, 120)
    assert all(sorted(place for pair in pairs for place in pair).count(i) == 2 for i in range(16))
    wins = torch.stack([torch.sigmoid(shuffled[a] - shuffled[b]) for a, b in pairs])
    scores = circular_scores(wins)
    assert float(scores.mean()) == pytest.approx(0.5)
    ranking = scores.argsort(descending=True)
    assert sorted(ranking.tolist()) == list(range(16))
    best, worst = shuffled[ranking[:8]].mean(), shuffled[ranking[8:]].mean()
    assert best > worst


def test_small_circles():
    assert circular_pairs(1) == ()
    assert circular_pairs(2) == ((0, 1), (1, 0))
    assert num_pairs(1) == 0
    with pytest.raises(ObjectiveError, match="at least one candidate"):
        circular_pairs(0)


@pytest.mark.row("S370")
def test_a_judge_pays_for_wrong_scores_a_wrong_ranking_and_a_malformed_verdict():
    score_errors = torch.tensor([[0.0, 0.0], [1.0, -2.0], [0.0, 0.0], [float("nan"), 0.0]], dtype=torch.float64)
    rank_errors = torch.tensor([0.0, 0.0, -3.0, 0.0], dtype=torch.float64)
    malformed = torch.tensor([False, False, False, True])
    found = judge_reward(score_errors, rank_errors, malformed, format_penalty=10.0, rank_weight=0.5)
    assert found.tolist() == [0, -3, -1.5, -10]


def test_what_is_no_chance_or_penalty_is_refused():
    with pytest.raises(ObjectiveError, match="shown_second lies outside 0 to 1"):
        both_orders(torch.tensor([0.5]), torch.tensor([1.5]))
    with pytest.raises(ObjectiveError, match="at least 0"):
        judge_reward(torch.zeros(1, 2), torch.zeros(1), torch.zeros(1).bool(), format_penalty=-1)
