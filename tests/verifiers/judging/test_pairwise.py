"""Comparisons: both orders, their gap, the ring of neighbors, and the reward of a judge that is trained."""

import asyncio

import pytest
import torch

from rollwright.algorithms.rewards.judging import both_orders, circular_scores, judge_reward
from rollwright.verifiers.judging.pairwise import (
    CircularJudge,
    Comparison,
    PairJudge,
    circular_pairs,
    genrm_reward,
    read_pair,
)
from tests.verifiers.judging.judges import FunctionJudge, asker_of, scripted
from tests.verifiers.submissions import ask, submitted


def said(prompt: str) -> tuple[str, str]:
    first, second = (prompt.split(f"[BEGIN ANSWER {x}]\n")[1].split(f"\n[END ANSWER {x}]")[0] for x in "AB")
    return first, second


def by_length(prompt: str) -> str:
    """Prefers the longer answer, by the difference in characters."""
    first, second = map(len, said(prompt))
    ranking = min(6, max(1, 3.5 + (second - first) / 2))
    return f"SCORE A: 3\nSCORE B: 3\nRANKING: {ranking}"


def compared(judge: PairJudge, first: str, second: str) -> Comparison:
    found = asyncio.run(judge.compare("q?", first, second))
    assert isinstance(found, Comparison)
    return found


@pytest.mark.row("S369")
def test_swapping_the_answers_flips_the_verdict_of_a_fair_judge_and_not_of_one_that_likes_the_first():
    pairs = [("long answer", "short"), ("a", "much longer"), ("same!", "other"), ("xx", "yyyyyy")]
    fair = [compared(PairJudge(asker=asker_of(FunctionJudge(reply=by_length))), *pair) for pair in pairs]
    assert [c.is_flipped for c in fair] == [True, True, False, True]  # the third is a tie
    assert all(c.position_gap == 0 for c in fair)
    likes_first = PairJudge(asker=asker_of(scripted("SCORE A: 5\nSCORE B: 1\nRANKING: 1")))
    biased = compared(likes_first, "a", "b")
    assert (biased.first_wins, biased.position_gap, biased.is_flipped) == (0.5, 1.0, False)


def test_both_orders_average_as_the_method_says():
    # M117.a: score_ab=.8 score_ba=.3 -> p_a_wins=.75 position_gap=.1
    client = FunctionJudge(reply=lambda p: f"SCORE A: 3\nSCORE B: 3\nRANKING: {2 if said(p)[0] == 'a' else 4.5}")
    found = compared(PairJudge(asker=asker_of(client)), "a", "b")
    assert (found.first_wins, found.position_gap) == (pytest.approx(0.75), pytest.approx(0.1))
    expected = both_orders(torch.tensor([0.8]), torch.tensor([0.3]))
    assert found.first_wins == pytest.approx(float(expected.first_wins[0]), abs=1e-6)


@pytest.mark.row("S371")
def test_a_ring_of_sixteen_costs_sixteen_calls_and_ranks_the_group():
    client = FunctionJudge(reply=by_length)
    submissions = [submitted("x" * (n + 1), trajectory_id=f"t000001-{n:02d}-0") for n in range(16)]
    verdicts = ask(CircularJudge(judge=PairJudge(asker=asker_of(client)), orders="one"), *submissions)
    assert len(client.shown) == len(circular_pairs(16)) == 16
    chances = torch.tensor([1 - (min(6, max(1, 3.5 + (len("x") * d) / 2)) - 1) / 5 for d in [1] * 15 + [-15]])
    assert [v.outcome for v in verdicts] == pytest.approx(circular_scores(chances).tolist())
    assert verdicts[0].outcome == min(v.outcome for v in verdicts)
    assert verdicts[15].outcome == max(v.outcome for v in verdicts)


def test_silent_members_lose_without_a_call_and_one_alone_is_neither():
    client = FunctionJudge(reply=by_length)
    judge = CircularJudge(judge=PairJudge(asker=asker_of(client)))
    verdicts = ask(judge, submitted("", trajectory_id="a"), submitted("text", trajectory_id="b"))
    assert [(v.outcome, v.finding) for v in verdicts] == [(0.0, "no_answer"), (0.5, None)]
    assert client.shown == []


def test_a_pair_without_a_verdict_leaves_its_two_members_without_a_score():
    client = FunctionJudge(reply=lambda p: "no idea" if set(said(p)) == {"a", "bb"} else by_length(p))
    submissions = [submitted(t, trajectory_id=t) for t in ("a", "bb", "ccc", "dddd")]
    outcomes = [v.outcome for v in ask(CircularJudge(judge=PairJudge(asker=asker_of(client))), *submissions)]
    assert outcomes[:2] == ["unparsable_judge"] * 2
    assert all(isinstance(outcome, float) for outcome in outcomes[2:])


@pytest.mark.parametrize(
    "reply",
    [
        "SCORE A: 3\nRANKING: 2",
        "SCORE A: 3\nSCORE B: 9\nRANKING: 2",
        "SCORE A: 3\nSCORE B: 3\nRANKING: 7",
        "SCORE A: 3\nSCORE B: 3\nRANKING: 2\nRANKING: 5",
        "RANKING: 2\nSCORE A: 3\nSCORE B: 3",
    ],
)
def test_half_a_comparison_is_none(reply):
    assert read_pair(reply) is None


@pytest.mark.row("S370")
def test_the_reward_of_a_trained_judge_counts_score_rank_and_form():
    read = genrm_reward("SCORE A: 4\nSCORE B: 2\nRANKING: 2", (5, 2), 1, format_penalty=4.0, rank_weight=0.5)
    malformed = genrm_reward("A is better", (5, 2), 1, format_penalty=4.0)
    expected = judge_reward(
        torch.tensor([[-1.0, 0.0], [0.0, 0.0]]),
        torch.tensor([1.0, 0.0]),
        torch.tensor([False, True]),
        format_penalty=4.0,
        rank_weight=0.5,
    )
    assert [read, malformed] == pytest.approx(expected.tolist())
